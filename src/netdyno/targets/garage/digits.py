"""A small CNN on scanned digits, decoded and turned by Pillow one at a time: bound by its input.

Real data: the 1,797 scanned digits that come with scikit-learn. Each is kept as a PNG file in memory, as a
folder of images would give it; decoding is the same every time; apart from it, `augment` turns, shifts
and lights each image by chance.
"""

import io
import math
import random
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from netdyno.targets.workload import Workload

SIDE = 32  # pixels; the scans have 8
TURN = 15.0  # degrees, either way
SHIFT = 3.0  # pixels, either way
LIGHT = 0.3  # brightness runs from 0.7 to 1.3

Sample = tuple[Tensor, int]


class Scans(Dataset[Sample]):
    """PNG files in memory. Reading one decodes it: open, stretch the grey levels, enlarge, make a tensor from 0 to 1."""

    def __init__(self, files: list[bytes], labels: list[int]) -> None:
        self.files = files
        self.labels = labels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        image = ImageOps.autocontrast(Image.open(io.BytesIO(self.files[index])).convert("L"))
        image = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255)[None], self.labels[index]


def train() -> Scans:
    """The first four fifths of the scans; the rest were written by other people."""
    return _scans(0, 1437)


def val() -> Scans:
    """The last fifth of the scans."""
    return _scans(1437, 1797)


def _scans(start: int, stop: int) -> Scans:
    scans = load_digits()
    # The scans have 17 grey levels, 0 to 16.
    pixels = np.rint(scans.images[start:stop] * (255 / 16)).astype(np.uint8)
    return Scans([_png(image) for image in pixels], scans.target[start:stop].tolist())


def _png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def augment(sample: Sample) -> Sample:
    """One image turned, shifted and lit by chance, with Pillow."""
    image, label = sample
    turn = math.radians(random.uniform(-TURN, TURN))
    right, down = random.uniform(-SHIFT, SHIFT), random.uniform(-SHIFT, SHIFT)
    return moved(image, turn, right, down, random.uniform(1 - LIGHT, 1 + LIGHT)), label


def moved(image: Tensor, turn: float, right: float, down: float, light: float) -> Tensor:
    """One image (1, SIDE, SIDE) turned by `turn` radians about its middle, shifted by pixels, and brightened."""
    cos, sin, middle = math.cos(turn), math.sin(turn), SIDE / 2
    # Pillow asks, for each pixel of the result, where in the original it comes from.
    x, y = middle + right, middle + down
    back = (cos, sin, middle - cos * x - sin * y, -sin, cos, middle + sin * x - cos * y)
    picture = Image.fromarray(image[0].numpy())
    picture = picture.transform((SIDE, SIDE), Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)
    picture = picture.point(lambda value: value * light + 0.0)
    return torch.from_numpy(np.array(picture))[None]


def batch_augment(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The same for a batch: each image its own angle, shift and light, drawn from the same ranges."""
    images, labels = batch
    chance = torch.rand(4, len(images), device=images.device) * 2 - 1
    turn, light = chance[0] * math.radians(TURN), 1 + chance[3] * LIGHT
    return moved_batch(images, turn, chance[1] * SHIFT, chance[2] * SHIFT, light), labels


def moved_batch(images: Tensor, turn: Tensor, right: Tensor, down: Tensor, light: Tensor) -> Tensor:
    """What `moved` does, for all images at once, with one number per image."""
    cos, sin = torch.cos(turn), torch.sin(turn)
    # Here the picture runs from -1 to 1: a pixel is 2 / SIDE.
    x, y = right * (2 / SIDE), down * (2 / SIDE)
    back = torch.stack((cos, sin, -cos * x - sin * y, -sin, cos, sin * x - cos * y), 1).view(-1, 2, 3)
    grid = F.affine_grid(back.to(images), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False) * light.to(images).view(-1, 1, 1, 1)


def model() -> nn.Module:
    """Three convolutions with batch normalisation and a linear layer; 6,000 parameters."""
    return nn.Sequential(
        _block(1, 8),
        _block(8, 16),
        _block(16, 32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def _block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=3e-3)


WORKLOAD = Workload(
    name="digits",
    model=model,
    train=train,
    val=val,
    optimizer=optimizer,
    batch_size=64,
    epochs=20,
    augment=augment,
    batch_augment=batch_augment,
    item="image",
    threads=1,  # its operators are so small that a second thread is mostly waited for
)
