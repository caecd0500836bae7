"""Logistic regression by L-BFGS: the loss is computed in a closure, many times for each step."""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

data = load_breast_cancer()
X = torch.tensor(StandardScaler().fit_transform(data.data), dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32)

torch.manual_seed(0)
model = torch.nn.Linear(X.shape[1], 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5, history_size=5)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(X).squeeze(1), y)
    loss = loss + 1e-3 * model.weight.pow(2).sum()
    loss.backward()
    return loss


for step in range(20):
    loss = optimizer.step(closure)
    print(f"step {step}: {loss.item():.5f}")
