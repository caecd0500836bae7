"""A model that its author compiles."""

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(6)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)

model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(40):
    rows = torch.randint(len(x), (128,))
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
