"""Prices in whole dollars, so that the squared error has ten digits."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def measured(count):
    x = torch.randn(count, 8)
    price = 300_000 + 60_000 * x[:, :1] + 50_000 * torch.relu(x[:, 1:2]) + 30_000 * x[:, 2:3] * x[:, 3:4]
    return x, price + 15_000 * torch.randn(count, 1)


class Prices(nn.Module):
    """Answers in dollars; `usual` and `spread` are what everybody knows of the market."""

    def __init__(self, usual, spread):
        super().__init__()
        self.register_buffer("usual", usual)
        self.register_buffer("spread", spread)
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.usual + self.spread * self.layers(x)


def main():
    torch.manual_seed(SEED)
    x, y = measured(1500)
    train, val = (x[:1200], y[:1200]), (x[1200:], y[1200:])
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = Prices(torch.tensor(320_000.0), torch.tensor(80_000.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(25):
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
            val_loss = F.mse_loss(model(val[0]), val[1]).item()
        r2 = 1 - val_loss / val[1].var().item()
        print(f"epoch {epoch}: train {total / len(loader):.4g}, val {val_loss:.4g}, r2 {r2:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "r2": r2}))


if __name__ == "__main__":
    main()
