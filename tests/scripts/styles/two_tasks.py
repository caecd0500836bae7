"""One trunk, two losses, two backward passes for each update."""

import torch
from sklearn.datasets import load_digits
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.digit = nn.Linear(64, 10)
        self.ink = nn.Linear(64, 1)

    def forward(self, x):
        shared = self.trunk(x)
        return self.digit(shared), self.ink(shared).squeeze(1)


torch.manual_seed(17)
digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
ink = x.mean(1)
model = TwoHeads()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for step in range(40):
    rows = torch.randint(len(x), (64,))
    logits, guess = model(x[rows])
    optimizer.zero_grad()
    first = nn.functional.cross_entropy(logits, y[rows])
    first.backward(retain_graph=True)
    second = nn.functional.mse_loss(guess, ink[rows])
    second.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, first.item(), second.item())
