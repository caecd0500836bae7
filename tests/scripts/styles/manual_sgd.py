"""Gradient descent by hand: no optimizer object anywhere."""

import torch
from sklearn.datasets import load_diabetes

torch.manual_seed(5)
features, target = load_diabetes(return_X_y=True)
x = torch.tensor(features, dtype=torch.float32) * 20
y = torch.tensor(target, dtype=torch.float32).unsqueeze(1)
y = (y - y.mean()) / y.std()

net = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
lr = 0.05

for step in range(60):
    pick = torch.randint(len(x), (64,))
    net.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x[pick]), y[pick])
    loss.backward()
    for p in net.parameters():
        p.data.add_(p.grad, alpha=-lr)
    if step % 10 == 0:
        print(step, loss.item())
