"""A good model is polished at a tiny learning rate: it hardly moves, and it need not."""

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


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train_for(model, loader, optimizer, epochs, val):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        val_loss, val_acc = evaluate(model, *val)
        print(f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    return {"val_loss": val_loss, "val_acc": val_acc}


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    train_for(model, loader, torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4), 15, val)
    torch.save(model.state_dict(), "converged.pt")

    model.load_state_dict(torch.load("converged.pt", weights_only=True))
    result = train_for(model, loader, torch.optim.AdamW(model.parameters(), lr=1e-6), 10, val)
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
