"""A ResNet-18 of width 16 on Fashion-MNIST.

Real data: 2,560 images of clothes for training and 512 for validation, from Debian's package
dataset-fashion-mnist. Nothing is downloaded; without the package, the workload says so.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netdyno.errors import TargetError
from netdyno.targets.workload import Workload

FOLDER = Path("/usr/share/datasets/fashion-mnist")
WIDTH = 16
MEAN, SPREAD = 0.286, 0.353  # of the training images, as pixels from 0 to 1
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def missing() -> TargetError | None:
    """What to install, when the images are not here."""
    absent = [name for name in FILES if not (FOLDER / name).is_file()]
    if not absent:
        return None
    return TargetError(
        "`garage:resnet` cannot be built here",
        because=f"there is no `{FOLDER / absent[0]}`",
        hint="`apt-get install dataset-fashion-mnist`",
    )


def train() -> tuple[Tensor, Tensor]:
    """The first 2,560 training images."""
    return _part("train", 2560)


def val() -> tuple[Tensor, Tensor]:
    """The first 512 test images."""
    return _part("t10k", 512)


def _part(part: str, count: int) -> tuple[Tensor, Tensor]:
    # An idx file is a header of 16 bytes (images) or 8 bytes (labels), then one byte per number.
    pixels = _bytes(f"{part}-images-idx3-ubyte.gz", 16, count * 28 * 28).reshape(count, 1, 28, 28)
    labels = _bytes(f"{part}-labels-idx1-ubyte.gz", 8, count)
    images = (torch.tensor(pixels, dtype=torch.float32) / 255 - MEAN) / SPREAD
    return images, torch.tensor(labels, dtype=torch.int64)


def _bytes(name: str, header: int, count: int) -> Any:
    with gzip.open(FOLDER / name) as file:
        return np.frombuffer(file.read(header + count), dtype=np.uint8, offset=header)


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        inside = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(inside)) + self.shortcut(x))


def model() -> nn.Module:
    """Eight blocks in four stages of rising width: 0.7 million parameters."""
    stages: list[nn.Module] = []
    inputs = WIDTH
    for outputs, stride in ((WIDTH, 1), (2 * WIDTH, 2), (4 * WIDTH, 2), (8 * WIDTH, 2)):
        stages += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    stem = (nn.Conv2d(1, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU())
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * WIDTH, 10))


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """Momentum, as residual networks are usually trained."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=5e-4)


WORKLOAD = Workload(
    name="resnet", model=model, train=train, val=val, optimizer=optimizer, batch_size=32, epochs=20, item="image"
)
