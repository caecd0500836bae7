"""Shorten gradients that are longer than usual.

Helps:      recurrent models, large rates, rare wild batches: one step cannot throw away what many have learned.
Costs:      with a threshold below the usual norm every step is shortened, which is a lower rate under another name.
Look at:    `netdyno.learning.clip_advice`, which observes the norms and says how often each threshold would cut.
"""

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import gradient_norm
from netdyno.records.study import Stage

# A percentile of fewer norms than this is the norm of one batch.
LEAST_SEEN = 10
# So many of the last norms are looked at: they shrink as training goes on.
REMEMBERED = 500


@dataclass(frozen=True, slots=True)
class Clip:
    """By the rule "norm" gradients are no longer than `value`; by "percentile" than that percentile of the norms so far."""

    rule: str = "percentile"
    value: float = 90.0

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "bounds the length of a step, so that one batch cannot throw the weights far away"
    asks: ClassVar[str] = "how long may a gradient be?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 57

    def refuses(self, setup: Setup) -> str | None:
        if self.rule not in ("norm", "percentile"):
            return f"`{self.rule}` is none of norm, percentile"
        if not 0 < self.value < math.inf:
            return f"gradients clipped to `{self.value}` move nothing"
        if self.rule == "percentile" and self.value >= 100:
            return f"no gradient is longer than `{self.value}` in a hundred"
        if self.rule == "percentile" and setup.updates <= LEAST_SEEN:
            return f"{setup.updates} updates show too few norms for a percentile of them"
        return None

    def settings(self, _: Setup) -> tuple[Knob, ...]:
        # A percentile fits every model; 1 is the usual threshold. The tenth was best in Seetharaman 2020.
        return (Clip("percentile", 90.0), Clip("norm", 1.0), Clip("percentile", 10.0))

    def turned(self, setup: Setup) -> Setup:
        call = ByNorm(self.value) if self.rule == "norm" else ByPercentile(self.value)
        return replace(setup, before_step=(*setup.before_step, call))

    def code(self) -> str:
        if self.rule == "norm":
            return f"torch.nn.utils.clip_grad_norm_(model.parameters(), {self.value})  # between backward and step"
        return (
            "norms = collections.deque(maxlen=500)  # before the first update; import collections and numpy as np\n\n"
            "# between backward and step\n"
            "norm = float(torch.nn.utils.get_total_norm([w.grad for w in model.parameters() if w.grad is not None]))\n"
            "norms.append(norm)\n"
            "if len(norms) >= 10:\n"
            f"    torch.nn.utils.clip_grad_norm_(model.parameters(), float(np.percentile(norms, {self.value})))"
        )


@dataclass(frozen=True, slots=True)
class ByNorm:
    """Called between backward and step."""

    most: float

    def __call__(self, model: nn.Module, _: Any) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), self.most)


@dataclass(frozen=True)
class ByPercentile:
    """The same by the norms that were seen; each optimizer, which is each run, has its own."""

    percentile: float
    seen: WeakKeyDictionary[Any, deque[float]] = field(default_factory=WeakKeyDictionary, compare=False)

    def __call__(self, model: nn.Module, optimizer: Any) -> None:
        norms = self.seen.setdefault(optimizer, deque(maxlen=REMEMBERED))
        norm = float(gradient_norm(model.parameters()))
        if math.isfinite(norm):
            norms.append(norm)
        if len(norms) >= LEAST_SEEN:
            torch.nn.utils.clip_grad_norm_(model.parameters(), float(np.percentile(norms, self.percentile)))
