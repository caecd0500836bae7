"""A deep stack of blocks that keep far more for the backward pass than they have weights: high activation memory.

Real data: scikit-learn's scanned digits as images of 8 x 8. Checkpointing its blocks trades time for most of this memory.
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

CHANNELS = 16
BLOCKS = 12


class Block(nn.Module):
    """A depthwise convolution and three element-wise steps, beside a shortcut; keeps five tensors for the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.mix = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(torch.tanh(self.norm(self.conv(x))).sigmoid())


def model() -> nn.Module:
    """Twelve blocks on 16 channels: 6,000 parameters, some 43 MB of activations."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Upsample(scale_factor=3.0),
        nn.Conv2d(1, CHANNELS, 3, padding=1),
        *(Block() for _ in range(BLOCKS)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * CHANNELS, 10),
    )


def train() -> tuple[Tensor, Tensor]:
    """The first 768 digits."""
    images, labels = _data.train_rows()
    return images[:768], labels[:768]


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=5e-3)


WORKLOAD = Workload(
    name="deep_activations",
    model=model,
    train=train,
    val=_data.val_rows,
    optimizer=optimizer,
    batch_size=24,
    epochs=20,
    item="image",
)
