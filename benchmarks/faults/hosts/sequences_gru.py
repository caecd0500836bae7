"""A GRU that tells three kinds of noisy waves apart."""

import json
import os
import resource
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
STEPS = 24
EPOCHS = 8


def make_waves(count, rng):
    kinds = rng.integers(0, 3, size=count)
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1))
    speed = rng.uniform(0.5, 0.9, size=(count, 1))
    angle = phase + speed * np.arange(STEPS)
    sine = np.sin(angle)
    square = np.sign(sine)
    saw = (angle / np.pi) % 2 - 1
    waves = np.choose(kinds[:, None], [sine, square, saw])
    waves = waves + 0.3 * rng.normal(size=waves.shape)
    return torch.tensor(waves[..., None], dtype=torch.float32), torch.tensor(kinds)


class WaveClassifier(nn.Module):
    def __init__(self, hidden=32, classes=3):
        super().__init__()
        self.gru = nn.GRU(input_size=1, hidden_size=hidden, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        states, _ = self.gru(x)
        last = states[:, -1]
        return self.head(self.dropout(last))


def evaluate(model, loader, loss_fn):
    model.eval()
    loss_sum, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for waves, kinds in loader:
            logits = model(waves)
            loss_sum += loss_fn(logits, kinds).item() * len(kinds)
            hits += (logits.argmax(1) == kinds).sum().item()
            count += len(kinds)
    return loss_sum / count, hits / count


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    rng = np.random.default_rng(SEED)
    x_train, y_train = make_waves(1600, rng)
    x_val, y_val = make_waves(500, rng)
    train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=250)
    model = WaveClassifier()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        epoch_loss = 0.0
        for waves, kinds in train_loader:
            optimizer.zero_grad()
            logits = model(waves)
            loss = loss_fn(logits, kinds)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            epoch_loss += loss.item()
        train_loss = epoch_loss / len(train_loader)
        val_loss, val_acc = evaluate(model, val_loader, loss_fn)
        print(f"epoch {epoch}: train {train_loss:.4f}, val {val_loss:.4f}, val acc {val_acc:.3f}")
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
