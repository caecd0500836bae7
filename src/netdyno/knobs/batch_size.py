"""Average each update over more samples or fewer, the rate following by the optimizer's own rule.

Helps:      small: more updates from the same data, and noise that keeps from sharp valleys; large: a device that is not yet full.
Costs:      large: fewer updates from the same data; beyond the critical size each is hardly better than before.
Not fair:   with the old rate. `netdyno.learning.batch_sweep` tunes it anew for each size, at equal updates and at equal epochs.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import built, scale_rates, scaling_of, with_optimizer
from netdyno.records.study import Stage

FACTORS = (0.5, 2.0, 0.25, 4.0)
# With less a batch norm has nothing to normalise by.
LEAST = 2


@dataclass(frozen=True, slots=True)
class BatchSize:
    """`size` samples an update. `scaling` of the rate: "linear", "sqrt" or "none"; `equal` is what stays: "epochs" or "updates"."""

    size: int = 32
    scaling: str = "sqrt"
    equal: str = "epochs"

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "is the valve between noise and work: how many samples an update is averaged over"
    asks: ClassVar[str] = "how many samples should an update see, over the same data?"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 51  # before warm-ups and schedules, which count updates

    def refuses(self, setup: Setup) -> str | None:
        if self.size < LEAST:
            return f"`{self.size}` samples are no batch"
        if self.scaling not in ("linear", "sqrt", "none"):
            return f"`{self.scaling}` is none of linear, sqrt, none"
        if self.equal not in ("epochs", "updates"):
            return f"`{self.equal}` is none of epochs, updates"
        samples = _samples(setup)
        if samples is not None and self.size > samples:
            return f"there are {samples} training samples for a batch of {self.size}"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        scaling = scaling_of(built(setup))
        sizes = dict.fromkeys(max(LEAST, round(setup.batch_size * factor)) for factor in FACTORS)
        return tuple(BatchSize(size, scaling) for size in sizes if size != setup.batch_size)

    def turned(self, setup: Setup) -> Setup:
        ratio = self.size / setup.batch_size
        factor = {"linear": ratio, "sqrt": ratio**0.5, "none": 1.0}[self.scaling]
        updates = max(1, round(setup.updates / ratio)) if self.equal == "epochs" else setup.updates
        sized = replace(setup, batch_size=self.size, updates=updates)
        return with_optimizer(sized, lambda optimizer: scale_rates(optimizer, factor))

    def code(self) -> str:
        factor = {"linear": "ratio", "sqrt": "ratio**0.5", "none": "1"}[self.scaling]
        return (
            f"ratio = {self.size} / batch_size  # to the size before\n"
            f"batch_size = {self.size}\n"
            f'for group in optimizer.param_groups:\n    group["lr"] *= {factor}'
        )


def _samples(setup: Setup) -> int | None:
    data, _ = setup.workload.datasets()
    try:
        return len(data)  # type: ignore[arg-type]
    except TypeError:
        return None
