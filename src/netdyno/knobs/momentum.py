"""Let an update keep more or less of those before it: momentum, or beta1 of Adam and its kin.

Helps:      high: small batches, whose gradients point hither and thither; low: gradients that change their course soon.
Costs:      nothing; but with plain momentum the steps grow by 1 / (1 - momentum), as if the rate had been raised.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import built, momentum_of, set_momentum, with_optimizer
from netdyno.records.study import Stage

VALUES = (0.9, 0.95, 0.8)


@dataclass(frozen=True, slots=True)
class Momentum:
    """`value` is the share of the running mean that stays at every update."""

    value: float = 0.9

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "decides over how many updates the direction is averaged"
    asks: ClassVar[str] = "over how many updates should gradients be averaged?"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 53

    def refuses(self, setup: Setup) -> str | None:
        if not 0 <= self.value < 1:
            return f"a momentum of `{self.value}` never forgets, or is none"
        optimizer = built(setup)
        if momentum_of(optimizer) is None:
            return f"`{type(optimizer).__name__}` has no momentum"
        if self.value == 0 and any(group.get("nesterov") for group in optimizer.param_groups):
            return "Nesterov's form looks ahead along the momentum, and needs one"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        now = momentum_of(built(setup))
        return tuple(Momentum(value) for value in VALUES if value != now)

    def turned(self, setup: Setup) -> Setup:
        return with_optimizer(setup, lambda optimizer: set_momentum(optimizer, self.value))

    def code(self) -> str:
        return (
            "for group in optimizer.param_groups:\n"
            '    if "betas" in group:\n'
            f'        group["betas"] = ({self.value}, *group["betas"][1:])\n'
            '    elif "momentum" in group:\n'
            f'        group["momentum"] = {self.value}'
        )
