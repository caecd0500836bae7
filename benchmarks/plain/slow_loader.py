"""An MLP on samples that are smoothed one by one in plain Python."""

import csv
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150


def make_data(count=2048):
    centres = torch.randn(10, 64)
    labels = torch.randint(0, 10, (count,))
    return centres[labels] + 1.2 * torch.randn(count, 64), labels


def smoothed(values, passes=40):
    for _ in range(passes):
        values = [
            0.5 * here + 0.25 * (before + after)
            for before, here, after in zip(values[-1:] + values[:-1], values, values[1:] + values[:1], strict=True)
        ]
    return values


class Smoothed(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return torch.tensor(smoothed(self.x[index].tolist())), self.y[index]


def forever(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    loader = DataLoader(Smoothed(*make_data()), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
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
