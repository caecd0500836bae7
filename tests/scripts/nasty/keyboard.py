from model import Training

training = Training()
try:
    while True:
        training.step()
except KeyboardInterrupt:
    print("interrupted")
