"""A small MLP whose every sample waits 2 ms, as a slow disk or network does: bound by a blocked loader.

Real data: scikit-learn's scanned digits as rows of 64 numbers. The wait is a sleep, so it needs no core and
more loader workers than cores pay.
"""

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

WAIT_S = 0.002


class Waiting(Dataset[tuple[Tensor, Tensor]]):
    """Rows that arrive late."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(WAIT_S)
        return self.inputs[index], self.targets[index]


def train() -> Waiting:
    """The first 512 digits: an epoch waits a second."""
    images, labels = _data.train_rows()
    return Waiting(images[:512], labels[:512])


def val() -> Waiting:
    """128 digits by other people."""
    images, labels = _data.val_rows()
    return Waiting(images[:128], labels[:128])


def model() -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=3e-3)


WORKLOAD = Workload(
    name="sleepy", model=model, train=train, val=val, optimizer=optimizer, batch_size=16, epochs=20, item="row"
)
