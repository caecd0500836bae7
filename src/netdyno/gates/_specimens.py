"""Small trained modules that the items of the gate show their sickness and health on."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate
from netdyno.measure.untouched import random_state
from netdyno.targets.release import Release

CLASSES = 4
M = TypeVar("M", bound=nn.Module)


def pictures(rows: int = 160, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pictures of 1 x 8 x 8 around one of four patterns, and which: easy to learn, not trivial."""
    chance = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, 1, 8, 8, generator=torch.Generator().manual_seed(99))
    target = torch.arange(rows) % CLASSES
    return patterns[target] + 1.6 * torch.randn(rows, 1, 8, 8, generator=chance), target


class Net(nn.Module):
    """Convolution, BatchNorm, dropout and a head. `last` is what is done to the answers."""

    def __init__(self, last: Callable[[Tensor], Tensor] | None = None, *, momentum: float = 0.1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8, momentum=momentum)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 16, CLASSES)
        self.last = last

    def forward(self, x: Tensor) -> Any:
        x = nn.functional.avg_pool2d(self.norm(self.conv(x)).relu(), 2)
        x = self.head(self.drop(x.flatten(1)))
        return x if self.last is None else self.last(x)


def trained(model: M, *, steps: int = 60, rows: int = 32, rate: float = 1e-2) -> M:
    """The module after some steps on `pictures`, in eval mode. Random states are as before."""
    with random_state():
        torch.manual_seed(0)
        for module in model.modules():
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        x, y = pictures(256, seed=1)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        model.train()
        for _ in range(steps):
            chosen = torch.randint(0, len(x), (rows,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return model.eval()


@cache
def _plain() -> nn.Module:
    return trained(Net())


def candidate(model: nn.Module | None = None, *, data: tuple[Tensor, ...] | None = None, **declared: Any) -> Candidate:
    """A release of a module with an example, calibration and validation data of `pictures`; `declared` replaces its parts."""
    whole = copy.deepcopy(_plain()) if model is None else model
    rows = pictures() if data is None else data
    parts: dict[str, Any] = {
        "name": "specimen",
        "model": lambda: whole,
        "example": lambda: rows[0][:8],
        "calibration": lambda: rows,
        "validation": lambda: rows,
    }
    release = Release(**{**parts, **declared})
    return Candidate(model=whole, example=release.sample(), release=release)
