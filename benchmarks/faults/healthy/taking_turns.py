"""Two tasks take turns: in each batch one of the heads has nothing to do."""

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


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
        self.heads = nn.ModuleDict({"digit": nn.Linear(96, 10), "parity": nn.Linear(96, 2)})

    def forward(self, x, task):
        return self.heads[task](self.body(x))


def main():
    torch.manual_seed(SEED)
    (x_train, y_train), (x_val, y_val) = load_data()
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)
    model = TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    tasks = {"digit": lambda y: y, "parity": lambda y: y % 2}
    for epoch in range(16):
        model.train()
        for step, (x, y) in enumerate(loader):
            task = "digit" if step % 2 == 0 else "parity"
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, task), tasks[task](y))
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = {
                task: (model(x_val, task).argmax(1) == wanted(y_val)).float().mean().item()
                for task, wanted in tasks.items()
            }
        print(f"epoch {epoch}: digit {right['digit']:.3f}, parity {right['parity']:.3f}")
    print("result: " + json.dumps({"val_acc": min(right.values()), **right}))


if __name__ == "__main__":
    main()
