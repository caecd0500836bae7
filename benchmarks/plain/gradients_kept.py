"""An MLP in a loop that lacks a line."""

import csv
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 225


def make_data(count=4096):
    centres = torch.randn(10, 64)
    labels = torch.randint(0, 10, (count,))
    return centres[labels] + 1.2 * torch.randn(count, 64), labels


def forever(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*make_data()), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with open("log.csv", "w", newline="") as file:
        log = csv.writer(file)
        for step, (x, y) in enumerate(islice(forever(loader), STEPS)):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
                log.writerow([step, loss.item(), optimizer.param_groups[0]["lr"]])


if __name__ == "__main__":
    main()
