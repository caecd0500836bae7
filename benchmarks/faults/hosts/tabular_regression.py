"""A regression on the diabetes records, standardised with the training part's statistics."""

import json
import os
import resource
import time

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 30
BATCH_SIZE = 32


class Regressor(nn.Module):
    def __init__(self, features=10, hidden=16):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.relu(self.fc1(x))
        return self.fc2(h).squeeze(1)


def load_data():
    features, progression = load_diabetes(return_X_y=True, scaled=False)
    x_train, x_val, y_train, y_val = train_test_split(features, progression, test_size=0.25, random_state=SEED)
    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)
    y_mean, y_std = y_train.mean(), y_train.std()
    x_train = (x_train - x_mean) / x_std
    x_val = (x_val - x_mean) / x_std
    y_train = (y_train - y_mean) / y_std
    y_val = (y_val - y_mean) / y_std
    train_set = TensorDataset(torch.tensor(x_train).float(), torch.tensor(y_train).float())
    val_set = TensorDataset(torch.tensor(x_val).float(), torch.tensor(y_val).float())
    return train_set, val_set


def evaluate(model, loader, criterion):
    model.eval()
    predictions, truths = [], []
    with torch.no_grad():
        for x, y in loader:
            predictions.append(model(x))
            truths.append(y)
    predictions = torch.cat(predictions)
    truths = torch.cat(truths)
    mse = criterion(predictions, truths).item()
    return mse, 1 - mse / truths.var(unbiased=False).item()


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    train_set, val_set = load_data()
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=128)
    model = Regressor()
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            prediction = model(x)
            loss = criterion(prediction, y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
        scheduler.step()
        train_loss = running / len(train_set)
        val_loss, val_r2 = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch:2d}: train mse {train_loss:.4f}, val mse {val_loss:.4f}, val r2 {val_r2:.3f}")
    train_s = time.perf_counter() - start

    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"train_loss": train_loss, "val_loss": val_loss, "val_r2": val_r2, "train_s": train_s, "peak_mb": peak_mb}
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
