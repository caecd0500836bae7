"""A gauge that can compute one weighted sum, set to follow a curve as well as a line can."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def measured(count):
    x = torch.randn(count, 4)
    return x, x[:, :1] + torch.cos(3 * x[:, 1:2]) + x[:, 2:3] * x[:, 3:] + 0.2 * torch.randn(count, 1)


def main():
    torch.manual_seed(SEED)
    x, y = measured(2400)
    train, val = (x[:1800], y[:1800]), (x[1800:], y[1800:])
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for epoch in range(15):
        model.train()
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            answers = model(val[0])
            val_loss = F.mse_loss(answers, val[1]).item()
            r2 = 1 - F.mse_loss(answers, val[1]).item() / val[1].var().item()
        print(f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, r2 {r2:+.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "r2": r2}))


if __name__ == "__main__":
    main()
