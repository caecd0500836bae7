"""A fault: the whole data set is evaluated twice after every update."""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from torch import nn

torch.manual_seed(0)
features, labels = load_breast_cancer(return_X_y=True)
x, y = torch.tensor(scale(features), dtype=torch.float32), torch.tensor(labels)
train, valid = torch.arange(len(x))[:400], torch.arange(len(x))[400:]
model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


@torch.no_grad()
def evaluate(rows):
    model.eval()
    return (model(x)[rows].argmax(1) == y[rows]).float().mean().item()


for epoch in range(60):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x)[train], y[train])
    loss.backward()
    optimizer.step()
    train_accuracy, valid_accuracy = evaluate(train), evaluate(valid)
    if epoch % 20 == 0:
        print(f"epoch {epoch}: {loss.item():.4f} {train_accuracy:.3f} {valid_accuracy:.3f}")
