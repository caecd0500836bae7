"""Shapes seen through four blurred pixels: different shapes look the same."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def measured(count):
    kinds = torch.randint(0, 6, (count,))
    centres = torch.tensor(
        [[0.0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]
    )
    return centres[kinds] + 0.6 * torch.randn(count, 4), kinds


def main():
    torch.manual_seed(SEED)
    x, y = measured(2400)
    train, val = (x[:1800], y[:1800]), (x[1800:], y[1800:])
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    for epoch in range(15):
        model.train()
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            logits = model(val[0])
            val_loss = F.cross_entropy(logits, val[1]).item()
            val_acc = (logits.argmax(1) == val[1]).float().mean().item()
        print(f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
