"""A recommender of items to users, from embeddings, on generated interactions."""

import json
import os
import resource
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
USERS = 120
ITEMS = 80
EPOCHS = 12


def make_interactions(rng):
    taste = rng.normal(size=(USERS, 3))
    style = rng.normal(size=(ITEMS, 3))
    popularity = rng.normal(scale=0.5, size=ITEMS)
    affinity = 1.5 * taste @ style.T + popularity
    liked = rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-affinity))
    shown = rng.permutation(USERS * ITEMS)[:7000]
    users, items = np.divmod(shown, ITEMS)
    return torch.tensor(users), torch.tensor(items), torch.tensor(liked[users, items], dtype=torch.float32)


class Recommender(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.user_embedding = nn.Embedding(USERS, dim)
        self.item_embedding = nn.Embedding(ITEMS, dim)
        self.item_bias = nn.Embedding(ITEMS, 1)
        nn.init.normal_(self.user_embedding.weight, std=0.1)
        nn.init.normal_(self.item_embedding.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, users, items):
        match = (self.user_embedding(users) * self.item_embedding(items)).sum(dim=1)
        return match + self.item_bias(items).squeeze(1)


def evaluate(model, loader, criterion):
    model.eval()
    loss_sum, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for users, items, liked in loader:
            scores = model(users, items)
            loss_sum += criterion(scores, liked).item() * len(liked)
            hits += ((scores > 0) == (liked > 0.5)).sum().item()
            count += len(liked)
    return loss_sum / count, hits / count


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    users, items, liked = make_interactions(np.random.default_rng(SEED))
    cut = 5600
    train_set = TensorDataset(users[:cut], items[:cut], liked[:cut])
    val_set = TensorDataset(users[cut:], items[cut:], liked[cut:])
    train_loader = DataLoader(train_set, batch_size=128, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=700)
    model = Recommender()
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running, seen = 0.0, 0
        for user, item, target in train_loader:
            optimizer.zero_grad()
            score = model(user, item)
            loss = criterion(score, target)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(target)
            seen += len(target)
        train_loss = running / seen
        val_loss, val_acc = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch:2d}: train {train_loss:.4f}, val {val_loss:.4f}, val acc {val_acc:.3f}")
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
