"""A small network learns the digits 0 to 4; its frozen backbone then serves a new head for 5 to 9."""

import json
import os
import resource
import tempfile
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
PRETRAIN_EPOCHS = 6
EPOCHS = 12


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.pool(torch.relu(self.bn2(self.conv2(x))))
        return x.flatten(1)


class Classifier(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(128, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def make_loaders(digits, first):
    chosen = (digits.target >= first) & (digits.target < first + 5)
    images = torch.tensor(digits.images[chosen] / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target[chosen] - first)
    train_idx, val_idx = train_test_split(np.arange(len(labels)), test_size=0.25, random_state=SEED)
    train_loader = DataLoader(TensorDataset(images[train_idx], labels[train_idx]), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(images[val_idx], labels[val_idx]), batch_size=128)
    return train_loader, val_loader


def evaluate(model, loader, criterion):
    model.eval()
    loss_sum, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            logits = model(x)
            loss_sum += criterion(logits, y).item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            count += len(y)
    return loss_sum / count, hits / count


def train_epoch(model, loader, criterion, optimizer):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    return running / len(loader)


def pretrain(digits, criterion, path):
    train_loader, val_loader = make_loaders(digits, first=0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(PRETRAIN_EPOCHS):
        model.train()
        loss = train_epoch(model, train_loader, criterion, optimizer)
        _, accuracy = evaluate(model, val_loader, criterion)
        print(f"pretraining {epoch}: train {loss:.4f}, val acc {accuracy:.3f}")
    torch.save({"model": model.state_dict(), "epoch": PRETRAIN_EPOCHS}, path)


def finetune(digits, criterion, pretrained, best_path):
    train_loader, val_loader = make_loaders(digits, first=5)
    model = Classifier()
    checkpoint = torch.load(pretrained, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    model.head = nn.Linear(128, 5)
    for parameter in model.backbone.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    best_loss = float("inf")
    for epoch in range(EPOCHS):
        model.train()
        model.backbone.eval()  # its running statistics stay as they were learned
        train_loss = train_epoch(model, train_loader, criterion, optimizer)
        val_loss, val_acc = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch}: train {train_loss:.4f}, val {val_loss:.4f}, val acc {val_acc:.3f}")
        if val_loss < best_loss:
            best_loss = val_loss
            torch.save(model.state_dict(), best_path)
    model.load_state_dict(torch.load(best_path, weights_only=True))
    val_loss, val_acc = evaluate(model, val_loader, criterion)
    return {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc}


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    digits = load_digits()
    criterion = nn.CrossEntropyLoss()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        pretrained = os.path.join(folder, "pretrained.pt")
        pretrain(digits, criterion, pretrained)
        result = finetune(digits, criterion, pretrained, os.path.join(folder, "best.pt"))
    result["train_s"] = time.perf_counter() - start
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
