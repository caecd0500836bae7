"""An LSTM that reads a year of weekly carbon dioxide measurements and says where the curve is a quarter later.

Real data: Mauna Loa, 1958 to 2001, as statsmodels brings it (extra `series`). Without statsmodels, a generated series
of the same length: a rising trend, a yearly wave and noise. `SOURCE` says which one is in use.
"""

import importlib.util
import math
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.workload import Workload

YEAR = 52  # weeks that the model reads
AHEAD = 13  # weeks until the one it guesses
SPREAD = 3.0  # parts per million: the size of the yearly wave, so that inputs are about one
SOURCE = "statsmodels co2" if importlib.util.find_spec("statsmodels") else "generated"


def series() -> Tensor:
    """About 2,280 weekly values, in parts per million."""
    if SOURCE == "generated":
        return generated()
    from statsmodels.datasets import co2

    values = co2.load().data["co2"].interpolate()
    return torch.tensor(values.to_numpy(copy=True), dtype=torch.float32)


def generated() -> Tensor:
    """A stand-in for the measured series, always the same."""
    week = torch.arange(2284, dtype=torch.float32)
    noise = torch.randn(len(week), generator=torch.Generator().manual_seed(0)) * 0.4
    return 315 + week * 0.025 + 2.8 * torch.sin(2 * math.pi * week / 52.18) + noise


def train() -> tuple[Tensor, Tensor]:
    """The earlier five sixths of the series, in windows of a year."""
    values = series()
    return windows(values[: len(values) * 5 // 6])


def val() -> tuple[Tensor, Tensor]:
    """The last sixth: later than everything trained on."""
    values = series()
    return windows(values[len(values) * 5 // 6 :])


def windows(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each year (windows, YEAR, 1) relative to its last value, and the value AHEAD weeks later likewise (windows, 1)."""
    whole = values.unfold(0, YEAR + AHEAD, 1)
    now = whole[:, YEAR - 1 : YEAR]
    relative = (whole - now) / SPREAD
    return relative[:, :YEAR, None].contiguous(), relative[:, -1:].contiguous()


class Forecaster(nn.Module):
    """Two LSTM layers; a linear layer reads the last hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 48, num_layers=2, batch_first=True)
        self.head = nn.Linear(48, 1)

    def forward(self, years: Tensor) -> Tensor:
        hidden, _ = self.lstm(years)
        return self.head(hidden[:, -1])


def metric(output: Tensor, target: Tensor) -> float:
    """The mean absolute error in parts per million, negative so that higher is better."""
    return -(output - target).abs().mean().item() * SPREAD


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW at the rate that suits so small a model."""
    return torch.optim.AdamW(parameters, lr=3e-3)


WORKLOAD = Workload(
    name="lstm",
    model=Forecaster,
    train=train,
    val=val,
    metric=metric,
    optimizer=optimizer,
    batch_size=64,
    epochs=20,
    item="window",
)
