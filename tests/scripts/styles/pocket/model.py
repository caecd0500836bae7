"""The network of the package."""

from torch import nn


class Pocket(nn.Module):
    def __init__(self, inputs, classes, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)
