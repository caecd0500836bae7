"""A small multilayer perceptron on the digits, in a plain loop."""

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

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 20
BATCH_SIZE = 64
LEARNING_RATE = 2e-3


class DigitsMLP(nn.Module):
    def __init__(self, hidden=96, classes=10):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.act1 = nn.ReLU()
        self.drop1 = nn.Dropout(0.2)
        self.fc2 = nn.Linear(hidden, hidden)
        self.act2 = nn.ReLU()
        self.drop2 = nn.Dropout(0.1)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.drop1(self.act1(self.fc1(x)))
        x = self.drop2(self.act2(self.fc2(x)))
        return self.head(x)


def load_data():
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    x_train, x_val, y_train, y_val = train_test_split(
        images, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    mean = x_train.mean()
    std = x_train.std()
    x_train = (x_train - mean) / std
    x_val = (x_val - mean) / std
    train_set = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))
    val_set = TensorDataset(torch.from_numpy(x_val), torch.from_numpy(y_val))
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=256)
    return train_loader, val_loader


def evaluate(model, loader, criterion):
    model.eval()
    total, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            logits = model(images)
            total += criterion(logits, labels).item() * len(labels)
            correct += (logits.argmax(dim=1) == labels).sum().item()
            count += len(labels)
    return total / count, correct / count


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    train_loader, val_loader = load_data()
    model = DigitsMLP()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running, seen = 0.0, 0
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(targets)
            seen += len(targets)
        train_loss = running / seen
        val_loss, val_acc = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch + 1:2d}: train loss {train_loss:.4f}, val loss {val_loss:.4f}, val acc {val_acc:.3f}")
    train_s = time.perf_counter() - start

    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "train_loss": train_loss,
        "val_loss": val_loss,
        "val_acc": val_acc,
        "train_s": train_s,
        "peak_mb": peak_mb,
    }
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
