"""A small convolutional network that learns."""

import csv
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 225


def make_data(count=2048):
    patterns = torch.randn(10, 3, 16, 16)
    labels = torch.randint(0, 10, (count,))
    return patterns[labels] + 1.5 * torch.randn(count, 3, 16, 16), labels


def forever(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*make_data()), batch_size=32, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    with open("log.csv", "w", newline="") as file:
        log = csv.writer(file)
        for step, (x, y) in enumerate(islice(forever(loader), STEPS)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
                log.writerow([step, loss.item(), optimizer.param_groups[0]["lr"]])


if __name__ == "__main__":
    main()
