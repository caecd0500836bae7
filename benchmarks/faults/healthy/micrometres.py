"""How far a beam bends, in metres: the targets are ten thousandths."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def measured(count):
    x = torch.randn(count, 6)
    bend = 1e-4 * (torch.sin(x[:, :1]) + 0.5 * x[:, 1:2].abs() + 0.1 * torch.randn(count, 1))
    return x, bend


class Beam(nn.Module):
    """Answers in metres; the layers work on tenths of millimetres."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x):
        return 1e-4 * self.layers(x)


def main():
    torch.manual_seed(SEED)
    x, y = measured(1500)
    train, val = (x[:1200], y[:1200]), (x[1200:], y[1200:])
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = Beam()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-16)  # gradients are as small as the targets
    for epoch in range(30):
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
