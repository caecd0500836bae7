"""A fastai Learner. Its optimizer is its own class, unknown to torch.optim."""

import torch
from fastai.basics import DataLoader, DataLoaders, Learner, set_seed
from sklearn.datasets import load_digits
from torch import nn

set_seed(3)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
train = list(zip(x[:1400], y[:1400], strict=True))
valid = list(zip(x[1400:], y[1400:], strict=True))
dls = DataLoaders(DataLoader(train, bs=64, shuffle=True), DataLoader(valid, bs=128))
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
learner = Learner(dls, model, loss_func=nn.CrossEntropyLoss())
with learner.no_bar():
    learner.fit_one_cycle(2, 1e-2)
