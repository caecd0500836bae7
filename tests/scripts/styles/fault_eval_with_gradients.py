"""A fault: validation builds the graph, because nobody wrote torch.no_grad."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
train_loader = DataLoader(TensorDataset(x[:1024], y[:1024]), batch_size=64, shuffle=True)
valid_loader = DataLoader(TensorDataset(x[1024:], y[1024:]), batch_size=256)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(4):
    model.train()
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()

    model.eval()
    total = 0.0
    for inputs, targets in valid_loader:
        total += nn.functional.cross_entropy(model(inputs), targets).item()
    print(f"epoch {epoch}: validation loss {total / len(valid_loader):.4f}")
