"""Many tiny operators in a row: bound by Python and the dispatcher, whatever the arithmetic costs.

Real data: scikit-learn's scanned digits as rows of 64 numbers. Forty small residual layers, with the normalisation
written out by hand as one finds it in research code.
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

WIDTH = 16
LAYERS = 40


class Layer(nn.Module):
    """Nine operators on 32 x 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.gain = nn.Parameter(torch.ones(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        scaled = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)
        return x + 0.2 * self.linear(scaled * self.gain + self.shift).tanh()


def model() -> nn.Module:
    """A narrow and very deep network; 13,000 parameters."""
    return nn.Sequential(nn.Linear(64, WIDTH), *(Layer() for _ in range(LAYERS)), nn.Linear(WIDTH, 10))


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=3e-3)


WORKLOAD = Workload(
    name="python_bound",
    model=model,
    train=_data.train_rows,
    val=_data.val_rows,
    optimizer=optimizer,
    batch_size=32,
    epochs=20,
    item="row",
)
