"""A stream that is seen once: the training loss is that of data never seen, early ones included."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

SEED = int(os.environ.get("SEED", "0"))


class Stream(IterableDataset):
    def __init__(self, seed, count):
        self.seed, self.count = seed, count

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            x = torch.randn(20, generator=generator)
            yield x, (torch.sin(2 * x[0]) + x[1] * x[2] > 0).long()


def main():
    torch.manual_seed(SEED)
    loader = DataLoader(Stream(1000 + SEED, 24_000), batch_size=48)
    held_out = list(DataLoader(Stream(SEED, 800), batch_size=400))
    model = nn.Sequential(nn.Linear(20, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    total = 0.0
    for step, (x, y) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % 125 == 0:
            model.eval()
            with torch.no_grad():
                val_loss = sum(F.cross_entropy(model(x), y).item() for x, y in held_out) / len(held_out)
                val_acc = sum((model(x).argmax(1) == y).float().mean().item() for x, y in held_out) / len(held_out)
            model.train()
            print(f"step {step}: train so far {total / step:.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"train_loss": total / step, "val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
