"""Few element-wise passes over tensors larger than the cache: bound by memory bandwidth.

Real data: scikit-learn's scanned digits as rows of 64 numbers. Every number is spread over 1,024 curves of its own
that are bent, shifted and averaged; there is about one operation for every eight bytes moved, and no matrix product but
the last, small one.
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

FEATURES = 64
CURVES = 1024
PASSES = 2


class Curves(nn.Module):
    """Spreads each feature over CURVES bent lines, PASSES times bent, and averages them again."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.randn(FEATURES, CURVES))
        self.shifts = nn.ParameterList(nn.Parameter(torch.randn(FEATURES, CURVES) / 2) for _ in range(PASSES))
        self.height = nn.Parameter(torch.randn(FEATURES, CURVES))
        self.head = nn.Linear(FEATURES, 10)

    def forward(self, rows: Tensor) -> Tensor:
        lines = rows[:, :, None] * self.slope
        for shift in self.shifts:
            lines = (lines + shift).relu()
        return self.head((lines * self.height).sum(2) / CURVES**0.5)


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """Plain gradient descent: one more pass over the weights, no state."""
    return torch.optim.SGD(parameters, lr=0.1)


WORKLOAD = Workload(
    name="copybound",
    model=Curves,
    train=_data.train_rows,
    val=_data.val_rows,
    optimizer=optimizer,
    batch_size=64,
    epochs=20,
    item="row",
)
