"""A small CNN on JPEG files that are decoded anew every time: bound by a loader that computes.

Real data: 640 pieces of the two photographs that come with scikit-learn, a temple and a flower; the model tells which
picture a piece is from. Decoding gives the same every time, so it can be done once and kept.
"""

import io
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor, nn
from torch.utils.data import Dataset

from netdyno.targets.workload import Workload

PIECE = 160  # pixels of a file
SIDE = 32  # pixels that the model sees

Sample = tuple[Tensor, int]


class Pieces(Dataset[Sample]):
    """JPEG files in memory. Reading one decodes it and makes it smaller."""

    def __init__(self, files: list[bytes], labels: list[int]) -> None:
        self.files = files
        self.labels = labels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        image = Image.open(io.BytesIO(self.files[index])).convert("RGB")
        image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        pixels = np.asarray(image, dtype=np.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), self.labels[index]


def train() -> Pieces:
    """Pieces from the left three quarters of both pictures."""
    return _pieces(512, left=0.0, right=0.75, seed=0)


def val() -> Pieces:
    """Pieces from the right quarter: none is part of a training piece."""
    return _pieces(128, left=0.75, right=1.0, seed=1)


def _pieces(count: int, *, left: float, right: float, seed: int) -> Pieces:
    pictures = [Image.fromarray(picture) for picture in load_sample_images().images]
    chance = np.random.default_rng(seed)
    files, labels = [], []
    for number in range(count):
        picture = pictures[number % 2]
        width, height = picture.size
        x = int(chance.uniform(left * width, right * width - PIECE))
        y = int(chance.uniform(0, height - PIECE))
        file = io.BytesIO()
        picture.crop((x, y, x + PIECE, y + PIECE)).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
        labels.append(number % 2)
    return Pieces(files, labels)


def model() -> nn.Module:
    """Two convolutions with batch normalisation and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 2),
    )


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=5e-3)


WORKLOAD = Workload(
    name="decoder", model=model, train=train, val=val, optimizer=optimizer, batch_size=32, epochs=20, item="image"
)
