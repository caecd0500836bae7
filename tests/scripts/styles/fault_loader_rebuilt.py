"""A fault: dataset and loader are built again for every epoch, and the epochs are short."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def make_loader():
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    return DataLoader(TensorDataset(x, torch.tensor(digits.target)), batch_size=256, shuffle=True)


model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(6):
    loader = make_loader()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
