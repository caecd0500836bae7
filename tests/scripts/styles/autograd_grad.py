"""Gradients are asked for with torch.autograd.grad and laid into the parameters by hand."""

import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale
from torch import nn

torch.manual_seed(2)
features, labels = load_wine(return_X_y=True)
x, y = torch.tensor(scale(features), dtype=torch.float32), torch.tensor(labels)

model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
parameters = list(model.parameters())

for step in range(40):
    rows = torch.randperm(len(x))[:64]
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    if step % 10 == 0:
        print(f"{step} {loss.item():.4f}")
