"""Purely functional training with torch.func: no backward call, no optimizer, no module that learns in place."""

import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(16)
features, labels = load_iris(return_X_y=True)
x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(labels)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
parameters = {name: p.detach() for name, p in model.named_parameters()}


def loss_of(parameters, x, y):
    return nn.functional.cross_entropy(functional_call(model, parameters, (x,)), y)


step_of = grad_and_value(loss_of)
for step in range(400):
    rows = torch.randint(len(x), (32,))
    gradients, loss = step_of(parameters, x[rows], y[rows])
    parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
    if step % 100 == 0:
        print(step, loss.item())
