"""Courses of the learning rate, by exact formulas: each a value (how it goes) and, called with an optimizer, a scheduler.

`factor(at, updates)` is what the rate of the optimizer is multiplied by in update `at`, counted from 0.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from torch.optim import lr_scheduler

from netdyno.errors import NetdynoError


class Course(Protocol):
    """A course that is known before it begins."""

    def factor(self, at: int, updates: int) -> float:
        """What the rate is multiplied by in update `at` of `updates`."""


def cosine(at: float, whole: float, *, high: float, low: float = 0.0) -> float:
    """The rate at `at` of `whole`: `low + (high - low) (1 + cos(pi at / whole)) / 2` (ledger A-145).

    >>> [round(cosine(at, 10, high=0.1, low=0.02), 12) for at in (0, 5, 10)]
    [0.1, 0.06, 0.02]
    """
    return low + 0.5 * (high - low) * (1 + math.cos(math.pi * at / whole))


@dataclass(frozen=True, slots=True)
class Constant:
    """The rate stays."""

    def factor(self, at: int, updates: int) -> float:
        return 1.0

    def __call__(self, optimizer: Any, updates: int) -> Any:
        return _multiplied(self, optimizer, updates)


@dataclass(frozen=True, slots=True)
class Cosine:
    """Half a wave down to `low` times the rate, which is reached when the last update is over."""

    low: float = 0.0

    def factor(self, at: int, updates: int) -> float:
        return cosine(min(at, updates), updates, high=1.0, low=self.low)

    def __call__(self, optimizer: Any, updates: int) -> Any:
        return _multiplied(self, optimizer, updates)


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line down to 0, which is reached when the last update is over."""

    def factor(self, at: int, updates: int) -> float:
        return 1.0 - min(at, updates) / updates

    def __call__(self, optimizer: Any, updates: int) -> Any:
        return _multiplied(self, optimizer, updates)


@dataclass(frozen=True, slots=True)
class OneCycle:
    """Up from peak / `div` in the first `rise` of all updates, then down to that start / `final_div`; `peak` multiplies the rate.

    With a rate of 1e-3 it starts at 4e-5 and ends at 4e-9 (ledger A-146). Meanwhile momentum or beta1 goes from 0.95 to 0.85 and back, unless
    `cycle_momentum` is off or the optimizer has none.
    """

    peak: float = 1.0
    rise: float = 0.1
    div: float = 25.0
    final_div: float = 1e4
    cycle_momentum: bool = True

    def __call__(self, optimizer: Any, updates: int) -> Any:
        return lr_scheduler.OneCycleLR(
            optimizer, max_lr=[float(group["lr"]) * self.peak for group in optimizer.param_groups], total_steps=updates,
            pct_start=self.rise, div_factor=self.div, final_div_factor=self.final_div,
            cycle_momentum=self.cycle_momentum and _has_momentum(optimizer),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plateau:
    """The rate times `cut` when the validation loss was no better, by the share `least`, for more than `patience` evaluations.

    More than: a patience of 3 cuts at the fourth bad one (ledger A-147); who wants the third asks for 2.
    """

    cut: float = 0.5
    patience: int = 3
    least: float = 1e-4

    def __call__(self, optimizer: Any, _: int) -> Any:
        return lr_scheduler.ReduceLROnPlateau(optimizer, factor=self.cut, patience=self.patience, threshold=self.least)


@dataclass(frozen=True, slots=True)
class Warmed:
    """`warmup` updates from next to nothing up to the rate, and then another course over those that are left.

    The first update is made at 1 / `warmup` of the rate: at 0 a batch would be wasted.
    """

    then: Any
    warmup: int

    def factor(self, at: int, updates: int) -> float:
        if at < self.warmup:
            return (at + 1) / self.warmup
        factor: float = self.then.factor(at - self.warmup, max(1, updates - self.warmup))
        return factor

    def __call__(self, optimizer: Any, updates: int) -> Any:
        return _multiplied(self, optimizer, updates)


def warmup_updates(
    form: str,
    amount: float,
    *,
    updates: int,
    updates_per_epoch: int | None = None,
    initial: float = 0.0,
    target: float = 0.0,
) -> int:
    """How long a warm-up is, in updates, in one of four forms (ledger A-144).

    "updates": so many; "epochs": so many passes over the data; "share": of all updates; "formula": the updates times `initial` over
    `amount` times `target`, with 0.3 as the usual amount. Raises NetdynoError for a form that gives no update.

    >>> warmup_updates("updates", 500, updates=4000), warmup_updates("share", 0.1, updates=4000)
    (500, 400)
    >>> warmup_updates("epochs", 5, updates=4000, updates_per_epoch=22)
    110
    >>> warmup_updates("formula", 0.3, updates=3000, initial=1e-4, target=1e-2)
    100
    """
    if form == "formula" and (initial <= 0 or target <= 0):
        raise NetdynoError(
            f"cannot compute a warm-up from an initial rate of `{initial}` to `{target}`",
            because="the formula multiplies by the one and divides by the other, and gives no update at all",
            hint="give an initial rate above 0, or a warm-up of a tenth of all updates",
        )
    if form == "epochs" and updates_per_epoch is None:
        raise NetdynoError(
            "cannot tell a warm-up in epochs",
            because="the data have no length, so nobody knows how many updates an epoch has",
            hint="give it in updates, or as a share of all updates",
        )
    counts = {
        "updates": amount,
        "share": amount * updates,
        "epochs": amount * (updates_per_epoch or 0),
        "formula": updates * initial / (amount * target) if amount * target else 0.0,
    }
    if form not in counts:
        raise NetdynoError(
            f"cannot warm up in `{form}`", because=f"the forms are {', '.join(counts)}", hint="use `share` with 0.1"
        )
    return round(counts[form])


def known_before(schedule: Any) -> bool:
    """Whether a course can be joined to a warm-up: its factor at each update is known before it begins."""
    return schedule is None or hasattr(schedule, "factor")


def _multiplied(course: Course, optimizer: Any, updates: int) -> Any:
    return lr_scheduler.LambdaLR(optimizer, partial(course.factor, updates=max(1, updates)))


def _has_momentum(optimizer: Any) -> bool:
    """One-cycle would give a momentum to plain SGD, which then is another optimizer."""
    group = optimizer.param_groups[0]
    return "betas" in group or bool(group.get("momentum"))
