"""A series that drifts is forecast from windows that are brought to scale by their own past."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def series(length):
    time = torch.arange(length, dtype=torch.float32)
    season = torch.sin(2 * torch.pi * time / 24) + 0.4 * torch.sin(2 * torch.pi * time / 7)
    return 0.01 * time + (1 + time / length) * season + 0.1 * torch.randn(length)


def windows(values, width=48):
    past = values.unfold(0, width + 1, 1)
    centre = past[:, :width].mean(1, keepdim=True)
    spread = past[:, :width].std(1, keepdim=True)
    scaled = (past - centre) / spread
    return scaled[:, :width], scaled[:, width:]


def main():
    torch.manual_seed(SEED)
    values = series(2000)
    train, val = windows(values[:1500]), windows(values[1500:])  # the future is validated on
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(15):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val_loss = F.mse_loss(model(val[0]), val[1]).item()
        r2 = 1 - val_loss / val[1].var().item()
        print(f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, r2 {r2:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "r2": r2}))


if __name__ == "__main__":
    main()
