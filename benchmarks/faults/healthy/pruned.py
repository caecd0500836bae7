"""Trained with an L1 penalty, then four fifths of the weights are cut off and the rest is trained on."""

import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.utils import prune
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def load_data():
    images, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        images.astype(np.float32) / 16.0, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    return (torch.from_numpy(x_train), torch.from_numpy(y_train)), (torch.from_numpy(x_val), torch.from_numpy(y_val))


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train_for(model, loader, optimizer, val, *, epochs, penalty):
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) + penalty * sum(p.abs().sum() for p in model.parameters())
            loss.backward()
            optimizer.step()
        val_loss, val_acc = evaluate(model, *val)
        print(f"epoch {epoch}: train {loss.item():.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    return {"val_loss": val_loss, "val_acc": val_acc}


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train_for(model, loader, optimizer, val, epochs=12, penalty=1e-4)
    weights = [(model[0], "weight"), (model[2], "weight")]
    prune.global_unstructured(weights, pruning_method=prune.L1Unstructured, amount=0.8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    result = train_for(model, loader, optimizer, val, epochs=8, penalty=0.0)
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
