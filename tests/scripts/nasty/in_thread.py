import threading

from model import Training


def fit():
    training = Training()
    while True:
        training.step()


thread = threading.Thread(target=fit)
thread.start()
thread.join()
print("main goes on", threading.active_count())
