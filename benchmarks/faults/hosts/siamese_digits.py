"""A metric on the digits, learned from triplets and judged by the nearest neighbour."""

import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 10
MARGIN = 0.3


class Triplets(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels
        self.by_class = [np.flatnonzero(labels == digit) for digit in range(10)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        digit = self.labels[index]
        other = (digit + np.random.randint(1, 10)) % 10
        positive = np.random.choice(self.by_class[digit])
        negative = np.random.choice(self.by_class[other])
        return self.images[index], self.images[positive], self.images[negative]


class Embedder(nn.Module):
    def __init__(self, hidden=96, dim=16):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        h = self.act(self.fc1(x))
        return F.normalize(self.fc2(h), dim=1)


def evaluate(model, val_loader, loss_fn, gallery, queries):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for anchor, positive, negative in val_loader:
            total += loss_fn(model(anchor), model(positive), model(negative)).item() * len(anchor)
            count += len(anchor)
        nearest = torch.cdist(model(queries[0]), model(gallery[0])).argmin(dim=1)
    accuracy = (gallery[1][nearest] == queries[1]).float().mean().item()
    return total / count, accuracy


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    pixels, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(pixels, labels, test_size=0.3, random_state=SEED, stratify=labels)
    mean, std = x_train.mean(), x_train.std()
    train_x = torch.tensor((x_train - mean) / std, dtype=torch.float32)
    val_x = torch.tensor((x_val - mean) / std, dtype=torch.float32)
    train_loader = DataLoader(Triplets(train_x, y_train), batch_size=64, shuffle=True)
    val_triplets = Triplets(val_x, y_val)
    val_set = [val_triplets[i] for i in range(len(val_triplets))]  # drawn once, so that epochs compare
    val_loader = DataLoader(val_set, batch_size=180)
    gallery = (train_x, torch.tensor(y_train))
    queries = (val_x, torch.tensor(y_val))
    model = Embedder()
    loss_fn = nn.TripletMarginLoss(margin=MARGIN)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for anchor, positive, negative in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(anchor), model(positive), model(negative))
            loss.backward()
            optimizer.step()
            running += loss.item()
        train_loss = running / len(train_loader)
        val_loss, val_acc = evaluate(model, val_loader, loss_fn, gallery, queries)
        print(f"epoch {epoch}: triplet loss {train_loss:.4f}, val {val_loss:.4f}, 1-nn accuracy {val_acc:.3f}")
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
