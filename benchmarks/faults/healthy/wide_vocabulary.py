"""Topics of short texts: of twenty thousand words a batch touches one in a hundred."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


WORDS, TOPICS, LENGTH = 20_000, 8, 24


def texts(count, generator):
    topics = torch.randint(0, TOPICS, (count,), generator=generator)
    common = torch.randint(TOPICS * 200, WORDS, (count, LENGTH), generator=generator)
    telling = topics[:, None] * 200 + torch.randint(0, 200, (count, LENGTH), generator=generator)
    tells = torch.rand(count, LENGTH, generator=generator) < 0.3
    return torch.where(tells, telling, common), topics


def main():
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    train, val = texts(4000, generator), texts(800, generator)
    loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 16, mode="mean"), nn.Linear(16, TOPICS))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2)
    for epoch in range(4):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            logits = model(val[0])
            val_loss = F.cross_entropy(logits, val[1]).item()
            val_acc = (logits.argmax(1) == val[1]).float().mean().item()
        print(f"epoch {epoch}: train {loss.item():.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
