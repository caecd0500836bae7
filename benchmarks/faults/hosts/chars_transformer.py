"""A causal character transformer with its own attention, on sentences of a small grammar."""

import json
import math
import os
import random
import resource
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 8
LENGTH = 40
PAD = 0
ALPHABET = "#^$ .abcdefghijklmnopqrstuvwxyz"  # padding, start and end come first


def sentence(rng):
    look = rng.choice(["", "old ", "red ", "big "])
    noun = rng.choice(["cat", "dog", "fox", "owl", "hen", "pig"])
    verb = rng.choice(["sees", "hears", "likes", "finds"])
    other = rng.choice(["a mouse", "the moon", "an egg", "the sea", "me"])
    tail = rng.choice(["", " now", " at night", " daily"])
    return f"^the {look}{noun} {verb} {other}{tail}.$"


def collate(texts):
    ids = torch.full((len(texts), LENGTH), PAD)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([ALPHABET.index(c) for c in text])
    return ids[:, :-1], ids[:, 1:]


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        mask = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.mask[:steps, :steps], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, steps, width)
        return self.proj(mixed)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CharTransformer(nn.Module):
    def __init__(self, width=32, heads=2, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(len(ALPHABET), width)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[: ids.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def evaluate(model, loader, criterion):
    model.eval()
    total, right, count = 0.0, 0, 0
    with torch.no_grad():
        for ids, following in loader:
            logits = model(ids)
            real = following != PAD
            total += criterion(logits.flatten(0, 1), following.flatten()).item() * real.sum().item()
            right += ((logits.argmax(-1) == following) & real).sum().item()
            count += real.sum().item()
    return total / count, right / count


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    rng = random.Random(SEED)
    texts = sorted({sentence(rng) for _ in range(2000)})
    rng.shuffle(texts)
    val_texts = texts[:200]
    train_texts = texts[200:]
    train_loader = DataLoader(train_texts, batch_size=32, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_texts, batch_size=100, collate_fn=collate)
    model = CharTransformer()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            logits = model(inputs)
            loss = criterion(logits.flatten(0, 1), targets.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        train_loss = running / len(train_loader)
        val_loss, val_acc = evaluate(model, val_loader, criterion)
        print(f"epoch {epoch}: train {train_loss:.4f} val {val_loss:.4f} next-character accuracy {val_acc:.3f}")
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
