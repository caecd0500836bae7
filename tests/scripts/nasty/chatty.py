from model import Training

training = Training()
while True:
    print("x" * 100_000)
    training.step()
