"""A perceptron on the digits, written with functions instead of layers for what has no weights."""

import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
torch.manual_seed(SEED)
np.random.seed(SEED)

epochs = 20
batch_size = 32
lr = 0.03


class Net(nn.Module):
    def __init__(self, width=128, p=0.2):
        super().__init__()
        self.p = p
        self.lin1 = nn.Linear(64, width)
        self.lin2 = nn.Linear(width, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        h = F.relu(self.lin1(x))
        h = F.dropout(h, self.p, training=self.training)
        h = F.relu(self.lin2(h))
        return self.out(h)


def get_loaders():
    X, y = load_digits(return_X_y=True)
    X_tr, X_va, y_tr, y_va = train_test_split(X, y, test_size=0.25, random_state=SEED, stratify=y)
    mu = X_tr.mean(axis=0)
    sigma = X_tr.std(axis=0) + 1.0  # some pixels are always blank
    X_tr = torch.tensor((X_tr - mu) / sigma, dtype=torch.float32)
    X_va = torch.tensor((X_va - mu) / sigma, dtype=torch.float32)
    y_tr = torch.tensor(y_tr)
    y_va = torch.tensor(y_va)
    train_dl = DataLoader(TensorDataset(X_tr, y_tr), batch_size=batch_size, shuffle=True)
    val_dl = DataLoader(TensorDataset(X_va, y_va), batch_size=256, shuffle=False)
    return train_dl, val_dl


@torch.no_grad()
def validate(net, dl):
    net.eval()
    loss_sum, hits, n = 0.0, 0, 0
    for xb, yb in dl:
        logits = net(xb)
        loss_sum += F.cross_entropy(logits, yb, reduction="sum").item()
        hits += (logits.argmax(1) == yb).sum().item()
        n += len(yb)
    return loss_sum / n, hits / n


def main():
    train_dl, val_dl = get_loaders()
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)

    t0 = time.perf_counter()
    for epoch in range(epochs):
        net.train()
        epoch_loss, n_seen = 0.0, 0
        for xb, yb in train_dl:
            pred = net(xb)
            loss = F.cross_entropy(pred, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            epoch_loss += loss.item() * xb.size(0)
            n_seen += xb.size(0)
        train_loss = epoch_loss / n_seen
        val_loss, val_acc = validate(net, val_dl)
        print(f"[{epoch:02d}] train {train_loss:.4f} val {val_loss:.4f} acc {val_acc:.3f}")
    train_s = time.perf_counter() - t0

    stats = {
        "train_loss": train_loss,
        "val_loss": val_loss,
        "val_acc": val_acc,
        "train_s": train_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(f"result: {json.dumps(stats)}")


if __name__ == "__main__":
    main()
