"""An MLP that reads its activations back into Python in every forward pass: hidden syncs.

Real data: scikit-learn's scanned digits as rows of 64 numbers. Each of twelve layers asks for one number by `.item()` and
decides by one `bool(tensor)`; on a GPU either would wait for the whole queue.
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

WIDTH = 128
LAYERS = 12


class Watched(nn.Module):
    """A layer that keeps its largest activation in a Python number and rescales when it grows too large."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.largest = 0.0

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.linear(x).relu()
        self.largest = x.detach().abs().max().item()
        if (x.detach().square().mean() > 4).any():
            x = x * 0.5
        return x


def model() -> nn.Module:
    """Twelve watched layers."""
    return nn.Sequential(nn.Linear(64, WIDTH), *(Watched() for _ in range(LAYERS)), nn.Linear(WIDTH, 10))


def log(model: nn.Module, loss: float) -> None:
    """What the original program writes down: the loss, read back every step, and each layer's largest activation."""
    HISTORY.append((loss, [layer.largest for layer in model.modules() if isinstance(layer, Watched)]))
    del HISTORY[:-100]


HISTORY: list[tuple[float, list[float]]] = []


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the usual rate."""
    return torch.optim.AdamW(parameters, lr=1e-3)


WORKLOAD = Workload(
    name="syncing",
    model=model,
    train=_data.train_rows,
    val=_data.val_rows,
    optimizer=optimizer,
    batch_size=16,
    epochs=20,
    log=log,
    item="row",
)
