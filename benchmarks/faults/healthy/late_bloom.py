"""Addition on a clock face: the training set is known by heart long before the rule is found."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn

SEED = int(os.environ.get("SEED", "0"))


HOURS = 23


class Clock(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(HOURS, width)
        self.hidden = nn.Linear(width, 256)
        self.head = nn.Linear(256, HOURS, bias=False)

    def forward(self, pairs):
        a, b = self.embed(pairs).unbind(1)
        return self.head(F.relu(self.hidden(a + b)))


def main():
    torch.manual_seed(SEED)
    pairs = torch.cartesian_prod(torch.arange(HOURS), torch.arange(HOURS))
    answers = pairs.sum(1) % HOURS
    order = torch.randperm(len(pairs))
    train, held_out = order[: int(0.7 * len(pairs))], order[int(0.7 * len(pairs)) :]
    model = Clock()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1.0)
    for step in range(1500):
        loss = F.cross_entropy(model(pairs[train]), answers[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            with torch.no_grad():
                logits = model(pairs[held_out])
                val_loss = F.cross_entropy(logits, answers[held_out]).item()
                val_acc = (logits.argmax(1) == answers[held_out]).float().mean().item()
            print(f"step {step + 1}: train {loss.item():.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"train_loss": loss.item(), "val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
