"""Dropout stays on in prediction on purpose: twenty passes tell how sure the model is."""

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


def with_doubt(model, x, passes=20):
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.no_grad():
        chances = torch.stack([model(x).softmax(1) for _ in range(passes)])
    return chances.mean(0), chances.std(0)


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(15):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        chances, doubt = with_doubt(model, val[0])
        val_loss = F.nll_loss(chances.clamp_min(1e-9).log(), val[1]).item()
        val_acc = (chances.argmax(1) == val[1]).float().mean().item()
        print(
            f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, acc {val_acc:.3f}, doubt {doubt.mean():.3f}"
        )
    print("result: " + json.dumps({"val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
