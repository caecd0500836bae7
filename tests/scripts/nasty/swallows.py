from model import Training

training = Training()
while True:
    try:
        training.step()
    except:  # noqa: E722
        print("swallowed", flush=True)
