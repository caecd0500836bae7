from model import Training

training = Training()
try:
    while True:
        training.step()
finally:
    print(f"tidied up after {training.steps}")
