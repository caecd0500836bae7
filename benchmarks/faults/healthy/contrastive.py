"""Two noisy views of a digit should meet: the loss stands at log B at first, as it must."""

import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def load_data():
    images, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        images.astype(np.float32) / 16.0, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    return (torch.from_numpy(x_train), torch.from_numpy(y_train)), (torch.from_numpy(x_val), torch.from_numpy(y_val))


def view(x):
    return x * (torch.rand_like(x) > 0.2) + 0.1 * torch.randn_like(x)


def neighbours_agree(encode, train, val):
    with torch.no_grad():
        known, asked = F.normalize(encode(train[0]), dim=1), F.normalize(encode(val[0]), dim=1)
    return (train[1][(asked @ known.T).argmax(1)] == val[1]).float().mean().item()


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(train[0]), batch_size=128, shuffle=True, drop_last=True)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-4)
    for epoch in range(25):
        total = 0.0
        for (x,) in loader:
            a, b = F.normalize(encoder(view(x)), dim=1), F.normalize(encoder(view(x)), dim=1)
            loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(len(x)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        val_acc = neighbours_agree(encoder, train, val)
        print(f"epoch {epoch}: loss {total / len(loader):.4f}, nearest neighbour {val_acc:.3f}")
    print("result: " + json.dumps({"train_loss": total / len(loader), "val_acc": val_acc}))


if __name__ == "__main__":
    main()
