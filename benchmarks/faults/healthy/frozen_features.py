"""A classifier on features that are frozen on purpose."""

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


class Features(nn.Module):
    """Random ridges, good enough for digits; nobody wants to train them."""

    def __init__(self, width=600):
        super().__init__()
        self.project = nn.Linear(64, width)
        nn.init.normal_(self.project.weight, std=0.3)

    def forward(self, x):
        return F.relu(self.project(x - 0.3))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Features()
        self.head = nn.Linear(600, 10)

    def forward(self, x):
        return self.head(self.backbone(x))


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    model = Classifier()
    model.backbone.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        val_loss, val_acc = evaluate(model, *val)
        print(f"epoch {epoch}: val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
