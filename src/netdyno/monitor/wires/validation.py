"""A validation loss that diverges: far above its best, its noise and everything before, and it stays there."""

import math
from itertools import pairwise
from statistics import median
from typing import NamedTuple

# Accuracy, IoU and the like may be NaN for an empty class, and fall within their bounds: only losses diverge.
LOSSES = ("loss", "nll", "perplexity", "ppl", "mse", "mae", "rmse", "error")
# One evaluation may be a bad one (statistics of a batch norm, one wrong sample); three in a row are no chance.
IN_A_ROW = 3
# Over-fitting doubles or trebles a loss within its life, and is the doctor's business.
TIMES = 5.0
# Of the usual step from one evaluation to the next.
NOISES = 10.0
LEAST = 3


class Diverges(NamedTuple):
    """The value, the best one, and the highest one before."""

    value: float
    best: float
    highest: float


class Validation:
    """Values of one loss."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.far: list[float] = []

    def judge(self, value: float) -> Diverges | None:
        """One more evaluation."""
        if not math.isfinite(value):
            return Diverges(value, min(self.values, default=math.nan), max(self.values, default=math.nan))
        if not self._far(value):
            self.values.extend((*self.far, value))
            self.far.clear()
            return None
        self.far.append(value)
        if len(self.far) < IN_A_ROW:
            return None
        return Diverges(value, min(self.values), max(self.values))

    def _far(self, value: float) -> bool:
        if len(self.values) < LEAST or min(self.values) <= 0:  # below zero nothing is a multiple of anything
            return False
        steps = [abs(b - a) for a, b in pairwise(self.values)]
        return value > TIMES * max(self.values) and value > min(self.values) + NOISES * median(steps)


def is_loss(name: str) -> bool:
    """Whether less is better, by its name.

    >>> is_loss("val_loss"), is_loss("accuracy")
    (True, False)
    """
    words = name.lower().replace("/", "_").replace("-", "_").split("_")
    return any(word in LOSSES for word in words)
