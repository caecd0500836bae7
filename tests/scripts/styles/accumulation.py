"""A character model that accumulates four small batches, clips, and lets a scheduler move the learning rate."""

import pydoc_data.topics

import torch
from torch import nn

torch.manual_seed(7)
text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics)[:5])
alphabet = sorted(set(text))
codes = torch.tensor([alphabet.index(c) for c in text[:40000]])

BLOCK, BATCH, ACCUMULATE, STEPS = 32, 8, 4, 25


class CharModel(nn.Module):
    def __init__(self, vocabulary, width=48):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, idx):
        hidden, _ = self.rnn(self.embed(idx))
        return self.out(hidden)


def get_batch():
    starts = torch.randint(len(codes) - BLOCK - 1, (BATCH,))
    x = torch.stack([codes[s : s + BLOCK] for s in starts])
    y = torch.stack([codes[s + 1 : s + BLOCK + 1] for s in starts])
    return x, y


model = CharModel(len(alphabet))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=STEPS)

for step in range(STEPS):
    total = 0.0
    for _ in range(ACCUMULATE):
        x, y = get_batch()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, len(alphabet)), y.view(-1)) / ACCUMULATE
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 5 == 0:
        print(f"{step}: {total:.4f} at {scheduler.get_last_lr()[0]:.2e}")
