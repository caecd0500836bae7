import torch
from model import Training


def fit(rank):
    training = Training()
    while True:
        training.step()


if __name__ == "__main__":
    torch.multiprocessing.spawn(fit, nprocs=2)
    print("parent goes on")
