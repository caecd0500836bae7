"""A convolutional network with batch norm on the digits, with shifted images to train on."""

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

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 12
BATCH_SIZE = 64


class DigitImages(Dataset):
    def __init__(self, images, labels, augment=False):
        self.images = images
        self.labels = labels
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augment:
            shift = np.random.randint(-1, 2)
            image = np.roll(image, shift, axis=1)
        return torch.from_numpy(image).unsqueeze(0), int(self.labels[index])


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.pool(self.relu(self.bn2(self.conv2(x))))
        return self.fc(x.flatten(1))


def make_loaders():
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    train_x, val_x, train_y, val_y = train_test_split(
        images, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target
    )
    train_set = DigitImages(train_x, train_y, augment=True)
    val_set = DigitImages(val_x, val_y)
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=128)
    return train_loader, val_loader


def evaluate(model, loader, loss_fn):
    model.eval()
    losses, hits = 0.0, 0
    with torch.no_grad():
        for images, labels in loader:
            scores = model(images)
            losses += loss_fn(scores, labels).item() * len(labels)
            hits += (scores.argmax(1) == labels).sum().item()
    return losses / len(loader.dataset), hits / len(loader.dataset)


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    train_loader, val_loader = make_loaders()
    model = ConvNet()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    begin = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = loss_fn(logits, y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        train_loss = total / len(train_loader.dataset)
        val_loss, val_acc = evaluate(model, val_loader, loss_fn)
        print(f"epoch {epoch}: train {train_loss:.4f} val {val_loss:.4f} accuracy {val_acc:.4f}")
    train_s = time.perf_counter() - begin

    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc}
    print("result: " + json.dumps({**summary, "train_s": train_s, "peak_mb": peak_mb}))


if __name__ == "__main__":
    main()
