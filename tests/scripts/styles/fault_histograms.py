"""A fault: histograms of all weights and gradients are drawn on every step, and nobody looks at most of them."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
history = []


def log_histograms(step):
    entry = {"step": step}
    for name, parameter in model.named_parameters():
        entry[f"weights/{name}"] = np.histogram(parameter.detach().numpy(), bins=64)
        entry[f"gradients/{name}"] = np.histogram(parameter.grad.numpy(), bins=64)
    history.append(entry)


step = 0
for _ in range(2):
    for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        log_histograms(step)
        step += 1
print(f"{len(history)} histograms, loss {loss.item():.4f}")
