"""A density's logarithm is above zero where it is sure, so this loss goes far below it."""

import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


class Density(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.mean = nn.Linear(64, 1)
        self.log_var = nn.Linear(64, 1)

    def forward(self, x):
        hidden = self.body(x)
        return self.mean(hidden), self.log_var(hidden).clamp(-10, 4).exp()


def main():
    torch.manual_seed(SEED)
    x = torch.rand(1600, 4) * 2 - 1
    y = 0.3 * torch.sin(3 * x[:, :1]) + 0.2 * x[:, 1:2] ** 2 + 0.02 * (1.2 + x[:, 2:3]) * torch.randn(1600, 1)
    loader = DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=64, shuffle=True)
    model = Density()
    criterion = nn.GaussianNLLLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for epoch in range(40):
        model.train()
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            mean, var = model(xb)
            loss = criterion(mean, yb, var)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            mean, var = model(x[1200:])
            val_loss = criterion(mean, y[1200:], var).item()
        print(f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}")
    print("result: " + json.dumps({"train_loss": total / len(loader), "val_loss": val_loss}))


if __name__ == "__main__":
    main()
