import time

from model import Training

training = Training()
try:
    while True:
        training.step()
finally:
    time.sleep(60)
