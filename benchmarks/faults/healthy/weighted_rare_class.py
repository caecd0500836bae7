"""One digit against nine, ten to one, with the loss weighted for it and recall in sight."""

import json
import os

import numpy as np
import torch
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


def main():
    torch.manual_seed(SEED)
    train, val = load_data()
    loader = DataLoader(TensorDataset(train[0], (train[1] == 3).long()), batch_size=64, shuffle=True)
    truth = val[1] == 3
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    weight = torch.tensor([1.0, 9.0])
    criterion = nn.CrossEntropyLoss(weight=weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(15):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            said = model(val[0]).argmax(1) == 1
            val_loss = criterion(model(val[0]), truth.long()).item()
        recall = (said & truth).sum().item() / truth.sum().item()
        balanced = 0.5 * (recall + (~said & ~truth).sum().item() / (~truth).sum().item())
        print(
            f"epoch {epoch}: train {total / len(loader):.4f}, val {val_loss:.4f}, recall {recall:.3f}, balanced {balanced:.3f}"
        )
    print("result: " + json.dumps({"val_loss": val_loss, "balanced_acc": balanced}))


if __name__ == "__main__":
    main()
