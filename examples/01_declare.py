"""Declare a workload: a model and data are enough.

Run it, or put it on the dyno:  netdyno tune examples/01_declare.py:Digits
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from netdyno import Workload


def data():
    scans = load_digits()
    return torch.tensor(scans.data, dtype=torch.float32) / 16, torch.tensor(scans.target)


Digits = Workload(
    model=lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
    train=data,  # no `val`: a tenth is held out. No `loss`: whole-number targets mean cross-entropy.
)

if __name__ == "__main__":
    subject = Digits.fresh(seed=0)  # model, optimizer and data, ready to step; equal each time under one seed
    batches = subject.feed.epochs()
    for step in range(100):
        batch = next(batches)
        loss = subject.loss(subject.forward(subject.model, batch), batch)
        loss.backward()
        subject.optimizer.step()
        subject.optimizer.zero_grad()
        if step % 25 == 0:
            print(f"step {step:3}: loss {loss.item():.3f}")
