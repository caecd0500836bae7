"""Tiny trained models and data in two domains, made once."""

from functools import cache

import torch
from torch import nn

from netdyno.aftercare._reference import Reference

CLASSES, SIDE = 3, 8


def pictures(count, *, seed, shift=0.0, scale=1.0):
    """Three classes of noisy patches; `shift` and `scale` are what another camera does to them."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    patterns = torch.randn(CLASSES, 2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    clean = patterns[labels] + 2.0 * torch.randn(count, 2, SIDE, SIDE, generator=chance)
    return clean * scale + shift, labels


class Net(nn.Module):
    """Convolution, batch norm, dropout, two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.hidden = nn.Linear(8 * 36, 16)
        self.norm2 = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.head(torch.relu(self.norm2(self.hidden(self.drop(x)))))


@cache
def _trained():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    inputs, labels = pictures(600, seed=1)
    for _ in range(6):
        for at in torch.randperm(600).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[at]), labels[at]).backward()
            optimizer.step()
    return model.eval().state_dict()


def trained():
    """The trained network, in eval mode."""
    model = Net()
    model.load_state_dict(_trained())
    return model.eval()


def reference(count=600, *, seed=2, **domain):
    """Labelled rows."""
    inputs, labels = pictures(count, seed=seed, **domain)
    return Reference(inputs=(inputs,), targets=labels)


def batches(count=1200, *, seed=3, size=60, **domain):
    """Unlabelled batches of inputs."""
    inputs, _ = pictures(count, seed=seed, **domain)
    return [(part,) for part in inputs.split(size)]
