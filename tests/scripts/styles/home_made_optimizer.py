"""An optimizer class of one's own that does not descend from torch.optim.Optimizer."""

import torch
from sklearn.datasets import load_digits
from torch import nn


class SignDescent:
    """Moves each weight by the sign of its smoothed gradient."""

    def __init__(self, parameters, lr=1e-3, beta=0.9):
        self.parameters = list(parameters)
        self.lr = lr
        self.beta = beta
        self.average = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, average in zip(self.parameters, self.average, strict=True):
            average.mul_(self.beta).add_(p.grad, alpha=1 - self.beta)
            p.sub_(self.lr * average.sign())


torch.manual_seed(15)
digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = SignDescent(model.parameters())

for step in range(60):
    rows = torch.randint(len(x), (64,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
