"""A convolutional network on the digits, its pooling and activations called as functions."""

import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

SEED = int(os.environ.get("SEED", "0"))
NUM_EPOCHS = 12


class Digits(Dataset):
    def __init__(self, x, y, train):
        self.x = x
        self.y = y
        self.train = train

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        img = self.x[i]
        if self.train and np.random.rand() < 0.5:
            img = np.roll(img, np.random.randint(-1, 2), axis=0)
        return torch.tensor(img[None]), torch.tensor(self.y[i])


class CNN(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.c1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.n1 = nn.BatchNorm2d(12)
        self.c2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.n2 = nn.BatchNorm2d(24)
        self.fc1 = nn.Linear(24 * 4, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.n2(self.c2(x)))
        x = F.avg_pool2d(x, 2)
        x = torch.flatten(x, 1)
        x = F.dropout(x, self.dropout, training=self.training)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def test(model, loader):
    model.eval()
    nll, right, total = 0.0, 0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            nll += F.nll_loss(output, target, reduction="sum").item()
            right += output.argmax(1).eq(target).sum().item()
            total += target.numel()
    return nll / total, right / total


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    digits = load_digits()
    x_tr, x_te, y_tr, y_te = train_test_split(digits.images, digits.target, test_size=0.2, random_state=SEED)
    m, s = x_tr.mean(), x_tr.std()
    x_tr = ((x_tr - m) / s).astype(np.float32)
    x_te = ((x_te - m) / s).astype(np.float32)
    train_loader = DataLoader(Digits(x_tr, y_tr, train=True), batch_size=48, shuffle=True)
    test_loader = DataLoader(Digits(x_te, y_te, train=False), batch_size=200)

    model = CNN()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    tic = time.perf_counter()
    for epoch in range(1, NUM_EPOCHS + 1):
        model.train()
        running_loss = 0.0
        for data, target in train_loader:
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        train_loss = running_loss / len(train_loader)
        val_loss, val_acc = test(model, test_loader)
        print(f"Epoch {epoch}/{NUM_EPOCHS} loss={train_loss:.4f} test_loss={val_loss:.4f} test_acc={val_acc:.4f}")
    toc = time.perf_counter()
    out = {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc, "train_s": toc - tic}
    out["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result:", json.dumps(out))


if __name__ == "__main__":
    main()
