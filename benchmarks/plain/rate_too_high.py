"""A regression whose learning rate is a hundred times what it bears."""

import csv
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 225


def make_data(count=4096):
    x = torch.randn(count, 64)
    return x, x @ torch.randn(64, 1) / 8 + 0.1 * torch.randn(count, 1)


def forever(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*make_data()), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with open("log.csv", "w", newline="") as file:
        log = csv.writer(file)
        for step, (x, y) in enumerate(islice(forever(loader), STEPS)):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
                log.writerow([step, loss.item(), optimizer.param_groups[0]["lr"]])


if __name__ == "__main__":
    main()
