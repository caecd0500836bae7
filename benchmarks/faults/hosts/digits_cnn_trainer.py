"""A small residual network on the digits, trained by a Trainer class that keeps the history."""

import json
import os
import resource
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ShiftedDigits(Dataset):
    def __init__(self, images, labels, max_shift=0):
        self.images = torch.as_tensor(images, dtype=torch.float32)
        self.labels = torch.as_tensor(labels)
        self.max_shift = max_shift

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        image = self.images[idx]
        if self.max_shift > 0:
            dx = np.random.randint(-self.max_shift, self.max_shift + 1)
            image = torch.roll(image, int(dx), dims=1)
        return image.unsqueeze(0), self.labels[idx]


class ResidualNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.branch = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.classifier = nn.Linear(channels * 16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = x + self.branch(x)
        x = self.pool(x)
        return self.classifier(torch.flatten(x, start_dim=1))


class Trainer:
    def __init__(self, model, optimizer, scheduler, train_loader, val_loader):
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.history = []

    def train_epoch(self):
        self.model.train()
        epoch_loss = 0.0
        for images, labels in self.train_loader:
            self.optimizer.zero_grad()
            predictions = self.model(images)
            loss = self.criterion(predictions, labels)
            loss.backward()
            self.optimizer.step()
            epoch_loss += loss.item()
        self.scheduler.step()
        return epoch_loss / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        val_loss, correct, seen = 0.0, 0, 0
        for images, labels in self.val_loader:
            logits = self.model(images)
            val_loss += self.criterion(logits, labels).item() * len(labels)
            correct += int((logits.argmax(1) == labels).sum())
            seen += len(labels)
        return val_loss / seen, correct / seen

    def fit(self, epochs):
        for epoch in range(epochs):
            train_loss = self.train_epoch()
            val_loss, val_acc = self.validate()
            self.history.append({"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc})
            print(f"epoch {epoch}: " + ", ".join(f"{k} {v:.4f}" for k, v in self.history[-1].items()))
        return self.history[-1]


def main():
    seed = int(os.environ.get("SEED", "0"))
    np.random.seed(seed)
    torch.manual_seed(seed)
    digits = load_digits()
    pixels = digits.images / 16.0 - 0.3
    x_train, x_val, y_train, y_val = train_test_split(pixels, digits.target, test_size=0.25, random_state=seed)
    train_loader = DataLoader(ShiftedDigits(x_train, y_train, max_shift=1), batch_size=64, shuffle=True)
    val_loader = DataLoader(ShiftedDigits(x_val, y_val), batch_size=150, shuffle=False)
    model = ResidualNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
    trainer = Trainer(model, optimizer, scheduler, train_loader, val_loader)

    started = time.perf_counter()
    final = trainer.fit(epochs=12)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result: " + json.dumps({**final, "train_s": seconds, "peak_mb": peak}))


if __name__ == "__main__":
    main()
