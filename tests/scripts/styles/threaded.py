"""Training runs in a thread while the main thread watches its progress."""

import threading
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

progress = {"step": 0, "loss": float("nan")}


def train():
    torch.manual_seed(14)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        progress.update(step=step + 1, loss=loss.item())


worker = threading.Thread(target=train, name="trainer")
worker.start()
while worker.is_alive():
    time.sleep(0.05)
worker.join()
print("last loss", progress["loss"])
