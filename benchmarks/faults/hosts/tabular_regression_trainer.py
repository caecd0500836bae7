"""A regression on generated house prices, scaled by scikit-learn and trained by a Trainer class."""

import json
import os
import resource
import time

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_houses(count, rng):
    area = rng.uniform(40, 220, count)
    rooms = np.round(area / 30 + rng.normal(0, 0.7, count)).clip(1)
    age = rng.uniform(0, 90, count)
    distance = rng.exponential(8, count)
    floor = rng.integers(0, 9, count)
    price = 2500 * area + 9000 * rooms - 700 * age + 90000 * np.exp(-distance / 6) + 1500 * floor
    price = price + rng.normal(0, 15000, count)
    table = np.column_stack([area, rooms, age, distance, floor])
    return table, price


class PriceNet(nn.Module):
    def __init__(self, features, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.body(x))


class Trainer:
    def __init__(self, model, train_loader, val_loader, epochs):
        self.model = model
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.epochs = epochs
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)

    def train_epoch(self):
        self.model.train()
        losses = []
        for features, price in self.train_loader:
            self.optimizer.zero_grad()
            estimate = self.model(features)
            loss = self.criterion(estimate, price)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        self.scheduler.step()
        return float(np.mean(losses))

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        squared, spread, count = 0.0, 0.0, 0
        for features, price in self.val_loader:
            estimate = self.model(features)
            squared += ((estimate - price) ** 2).sum().item()
            spread += (price**2).sum().item()  # prices are centred
            count += len(price)
        return squared / count, 1 - squared / spread

    def fit(self):
        for epoch in range(self.epochs):
            train_loss = self.train_epoch()
            val_loss, val_r2 = self.validate()
            print(f"epoch {epoch + 1}: train_loss={train_loss:.4f} val_loss={val_loss:.4f} val_r2={val_r2:.4f}")
        return {"train_loss": train_loss, "val_loss": val_loss, "val_r2": val_r2}


def main():
    seed = int(os.environ.get("SEED", "0"))
    torch.manual_seed(seed)
    np.random.seed(seed)
    table, price = make_houses(1500, np.random.default_rng(seed))
    x_train, x_val, y_train, y_val = train_test_split(table, price[:, None], test_size=0.2, random_state=seed)
    x_scaler = StandardScaler().fit(x_train)
    y_scaler = StandardScaler().fit(y_train)
    train_x = torch.tensor(x_scaler.transform(x_train), dtype=torch.float32)
    train_y = torch.tensor(y_scaler.transform(y_train), dtype=torch.float32)
    val_x = torch.tensor(x_scaler.transform(x_val), dtype=torch.float32)
    val_y = torch.tensor(y_scaler.transform(y_val), dtype=torch.float32)
    train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(val_x, val_y), batch_size=100)
    trainer = Trainer(PriceNet(train_x.shape[1]), train_loader, val_loader, epochs=12)

    started = time.perf_counter()
    result = trainer.fit()
    result["train_s"] = time.perf_counter() - started
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result:", json.dumps(result))


if __name__ == "__main__":
    main()
