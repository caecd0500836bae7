"""Trains the package's network; `main` is also the entry point of its console script."""

import argparse
import sys

import torch
from sklearn.datasets import load_iris
from torch.utils.data import DataLoader, TensorDataset

from .model import Pocket


def main(argv=None):
    parser = argparse.ArgumentParser(prog="pocket-train")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    features, labels = load_iris(return_X_y=True)
    data = TensorDataset(torch.tensor(features, dtype=torch.float32), torch.tensor(labels))
    model = Pocket(4, 3)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loss = None
    for epoch in range(options.epochs):
        for x, y in DataLoader(data, batch_size=options.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
