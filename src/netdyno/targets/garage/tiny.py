"""The smallest workload worth stepping: an MLP of one hidden layer, a millisecond a step.

Real data: scikit-learn's scanned digits as rows of 64 numbers. Good for trying things out; no finding is promised.
"""

from typing import Any

import torch
from torch import nn

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload


def model() -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=3e-3)


WORKLOAD = Workload(
    name="tiny",
    model=model,
    train=_data.train_rows,
    val=_data.val_rows,
    optimizer=optimizer,
    batch_size=32,
    epochs=20,
    item="row",
)
