import contextlib
import signal

from model import Training

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
training = Training()
while True:
    with contextlib.suppress(BaseException):
        training.step()
