"""A fault: the training loader is not shuffled, and the data lies sorted by class."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
order = digits.target.argsort(kind="stable")
x = torch.tensor(digits.data[order], dtype=torch.float32) / 16
y = torch.tensor(digits.target[order])
loader = DataLoader(TensorDataset(x, y), batch_size=64)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: last loss {loss.item():.4f}")
