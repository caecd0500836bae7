"""A perceptron on the digits, trained by a Trainer class."""

import json
import os
import resource
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {"epochs": 20, "batch_size": 64, "lr": 3e-3, "weight_decay": 1e-4, "hidden": 128}


def build_model(hidden):
    return nn.Sequential(
        nn.Linear(64, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(hidden, 10),
    )


def build_loaders(seed, batch_size):
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x / 16.0, dtype=torch.float32)
    y = torch.tensor(y, dtype=torch.long)
    train_idx, val_idx = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    train_data = TensorDataset(x[train_idx], y[train_idx])
    val_data = TensorDataset(x[val_idx], y[val_idx])
    train = DataLoader(train_data, batch_size=batch_size, shuffle=True, drop_last=True)
    val = DataLoader(val_data, batch_size=128, shuffle=False)
    return train, val


class Trainer:
    def __init__(self, model, train_loader, val_loader, config):
        self.model = model
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.config = config
        self.loss_fn = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config["lr"], weight_decay=config["weight_decay"]
        )

    def train_epoch(self):
        self.model.train()
        losses = []
        for batch in self.train_loader:
            x, y = batch
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def validate(self):
        self.model.eval()
        loss, correct, count = 0.0, 0, 0
        with torch.no_grad():
            for x, y in self.val_loader:
                out = self.model(x)
                loss += self.loss_fn(out, y).item() * y.size(0)
                correct += (out.argmax(dim=-1) == y).sum().item()
                count += y.size(0)
        return loss / count, correct / count

    def fit(self):
        started = time.perf_counter()
        for epoch in range(self.config["epochs"]):
            train_loss = self.train_epoch()
            val_loss, val_acc = self.validate()
            print(f"epoch={epoch} train_loss={train_loss:.4f} val_loss={val_loss:.4f} val_acc={val_acc:.4f}")
        elapsed = time.perf_counter() - started
        return {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc, "train_s": elapsed}


def main():
    seed = int(os.environ.get("SEED", "0"))
    torch.manual_seed(seed)
    np.random.seed(seed)
    train_loader, val_loader = build_loaders(seed, CONFIG["batch_size"])
    model = build_model(CONFIG["hidden"])
    trainer = Trainer(model, train_loader, val_loader, CONFIG)
    result = trainer.fit()
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result:", json.dumps(result))


if __name__ == "__main__":
    main()
