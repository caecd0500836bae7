from model import Training

training = Training()
while True:
    try:
        training.step()
    except:
        print("swallowed", flush=True)
