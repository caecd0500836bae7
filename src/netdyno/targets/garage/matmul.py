"""An MLP of large square matrix products on data in memory: bound by compute.

Generated data: the labels are what a fixed random network says about Gaussian inputs, so there is something
to learn. Each sample is a block of 32 rows, so that a batch of 1,024 rows costs the loader 32 reads.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netdyno.targets.workload import Workload

WIDTH = 512
ROWS = 32  # rows in a block
CLASSES = 10


def train() -> tuple[Tensor, Tensor]:
    """768 blocks."""
    return _blocks(768, seed=1)


def val() -> tuple[Tensor, Tensor]:
    """64 blocks more, labelled by the same network."""
    return _blocks(64, seed=2)


def _blocks(count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    teacher = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(0))
    inputs = torch.randn(count, ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs @ teacher).argmax(-1)


def model() -> nn.Module:
    """Three square hidden layers: 0.8 million parameters."""
    hidden = [part for _ in range(3) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, CLASSES))


def loss(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy over all rows of all blocks."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def metric(output: Tensor, target: Tensor) -> float:
    """The share of rows labelled right."""
    return (output.argmax(-1) == target).double().mean().item()


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW: next to these matrix products its update is small."""
    return torch.optim.AdamW(parameters, lr=1e-3)


WORKLOAD = Workload(
    name="matmul",
    model=model,
    train=train,
    val=val,
    loss=loss,
    metric=metric,
    optimizer=optimizer,
    batch_size=32,
    epochs=20,
    item="block",
)
