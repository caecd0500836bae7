"""Multiply the learning rate.

Helps:      nearly always: no other number decides as much over what is reached in a given number of updates.
Costs:      nothing; too high it diverges, too low it does not get there.
Not this:   a rate for each layer: all groups are multiplied alike and keep their proportions.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import built, rates, scale_rates, with_optimizer
from netdyno.records.study import Stage

# Half a decade and a decade: steps that are felt beyond the noise between seeds, from where a finer search may go on.
FACTORS = (3.0, 0.3, 10.0, 0.1)


@dataclass(frozen=True, slots=True)
class LearningRate:
    """Every group's rate times `factor`."""

    factor: float = 3.0

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "controls the length of each step: too short never arrives, too long jumps over the valley"
    asks: ClassVar[str] = "how long should a step be?"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 54  # it multiplies what the optimizer was built with

    def refuses(self, setup: Setup) -> str | None:
        if not 0 < self.factor < float("inf"):
            return f"a factor of `{self.factor}` leaves no step to make"
        if not any(rates(built(setup))):
            return "the learning rate is 0, and stays 0 whatever it is multiplied by"
        return None

    def settings(self, _: Setup) -> tuple[Knob, ...]:
        return tuple(LearningRate(factor) for factor in FACTORS)

    def turned(self, setup: Setup) -> Setup:
        return with_optimizer(setup, lambda optimizer: scale_rates(optimizer, self.factor))

    def code(self) -> str:
        return f'for group in optimizer.param_groups:\n    group["lr"] *= {self.factor}'
