"""A causal character transformer on strings of nested brackets, with attention called as a function."""

import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
torch.manual_seed(SEED)
np.random.seed(SEED)

VOCAB = ["<pad>", "<s>", "</s>", "(", ")", "[", "]", "x"]
STOI = {token: i for i, token in enumerate(VOCAB)}
PAD_ID = STOI["<pad>"]
BLOCK_SIZE = 28
N_EMBD = 32
N_HEAD = 4
N_EPOCHS = 5


def nested(depth):
    if depth == 0 or np.random.rand() < 0.2:
        return ["x"]
    left, right = [("(", ")"), ("[", "]")][np.random.randint(2)]
    inside = nested(depth - 1)
    if np.random.rand() < 0.5:
        inside = inside + nested(depth - 2 if depth > 1 else 0)
    return [left, *inside, right]


def make_lines(count):
    lines = set()
    while len(lines) < count:
        lines.add(("<s>", *nested(6)[: BLOCK_SIZE - 1], "</s>"))
    lines = sorted(lines)
    return [lines[i] for i in np.random.permutation(count)]


def encode(lines):
    rows = torch.full((len(lines), BLOCK_SIZE + 1), PAD_ID)
    for i, line in enumerate(lines):
        rows[i, : len(line)] = torch.tensor([STOI[token] for token in line])
    return TensorDataset(rows[:, :-1], rows[:, 1:])


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(N_EMBD)
        self.ln2 = nn.LayerNorm(N_EMBD)
        self.c_attn = nn.Linear(N_EMBD, 3 * N_EMBD)
        self.c_proj = nn.Linear(N_EMBD, N_EMBD)
        self.up = nn.Linear(N_EMBD, 4 * N_EMBD)
        self.down = nn.Linear(4 * N_EMBD, N_EMBD)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln1(x)).split(N_EMBD, dim=2)
        q = q.view(B, T, N_HEAD, C // N_HEAD).transpose(1, 2)
        k = k.view(B, T, N_HEAD, C // N_HEAD).transpose(1, 2)
        v = v.view(B, T, N_HEAD, C // N_HEAD).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        x = x + F.dropout(self.c_proj(y), 0.05, training=self.training)
        h = F.gelu(self.up(self.ln2(x)))
        return x + self.down(h)


class GPT(nn.Module):
    def __init__(self, n_layer=2):
        super().__init__()
        self.wte = nn.Embedding(len(VOCAB), N_EMBD)
        self.wpe = nn.Embedding(BLOCK_SIZE, N_EMBD)
        self.layers = nn.ModuleList(Layer() for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(N_EMBD)
        self.lm_head = nn.Linear(N_EMBD, len(VOCAB), bias=False)

    def forward(self, idx):
        pos = torch.arange(idx.size(1))
        x = self.wte(idx) + self.wpe(pos)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


@torch.no_grad()
def estimate(model, loader):
    model.eval()
    loss_sum, hits, tokens = 0.0, 0, 0
    for xb, yb in loader:
        logits = model(xb)
        loss_sum += F.cross_entropy(logits.transpose(1, 2), yb, ignore_index=PAD_ID, reduction="sum").item()
        hits += ((logits.argmax(dim=2) == yb) & (yb != PAD_ID)).sum().item()
        tokens += (yb != PAD_ID).sum().item()
    return loss_sum / tokens, hits / tokens


def main():
    lines = make_lines(1480)
    train_dl = DataLoader(encode(lines[200:]), batch_size=32, shuffle=True)
    val_dl = DataLoader(encode(lines[:200]), batch_size=100)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    t0 = time.perf_counter()
    for epoch in range(N_EPOCHS):
        model.train()
        total = 0.0
        for xb, yb in train_dl:
            logits = model(xb)
            loss = F.cross_entropy(logits.reshape(-1, len(VOCAB)), yb.reshape(-1), ignore_index=PAD_ID)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            total += loss.item()
        train_loss = total / len(train_dl)
        val_loss, val_acc = estimate(model, val_dl)
        print(f"epoch {epoch} | train {train_loss:.4f} | val {val_loss:.4f} | acc {val_acc:.3f}")
    train_s = time.perf_counter() - t0

    out = {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc, "train_s": train_s}
    out["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("result:", json.dumps(out))


if __name__ == "__main__":
    main()
