import sys

from model import Training

if __name__ == "__main__":
    training = Training()
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000):
        loss = training.step()
    print(f"argv {sys.argv} main {__name__} path {sys.path[0]} loss {loss!r}")
