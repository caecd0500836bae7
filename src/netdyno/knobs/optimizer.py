"""Replace the optimizer.

Helps:      where directions differ much in how steep they are (Adam and its kin), or where the simplest generalises best (SGD).
Costs:      memory: Adam keeps twice the parameters, SGD with momentum once, Adafactor next to nothing.
Not fair:   unless each has had its own rate tuned: that is why every optimizer is offered at several rates.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import KINDS, built, made, unavailable
from netdyno.records.study import Stage

# Of a dozen that can be asked for these are offered: one of each family, the likeliest first.
OFFERED = ("adamw", "nesterov", "lamb", "lion", "adafactor")
# The rate of its paper, half a decade to either side: an equal budget for each.
AROUND = (1.0, 3.0, 0.3)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """`name` is one of `netdyno.knobs._optimizers.KINDS`; all parameters learn at one `rate`."""

    name: str = "adamw"
    rate: float = 1e-3

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "decides which way and how far each weight goes for the gradients it has seen"
    asks: ClassVar[str] = "which optimizer learns most in the same updates, each at its own best rate?"
    effort_min: ClassVar[float] = 3.0
    order: ClassVar[int] = 50  # before everything that edits the optimizer

    def refuses(self, setup: Setup) -> str | None:
        if not 0 < self.rate < float("inf"):
            return f"a rate of `{self.rate}` is no step to make"
        no = unavailable(self.name, device=setup.workload.device)
        if no is not None:
            return no
        if len(built(setup).param_groups) > 1:
            return "the parameters are in several groups with settings of their own, which another optimizer would not know"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        there = [name for name in OFFERED if unavailable(name, device=setup.workload.device) is None]
        return tuple(Optimizer(name, _round(KINDS[name].rate * factor)) for factor in AROUND for name in there)

    def turned(self, setup: Setup) -> Setup:
        return replace(setup, optimizer=lambda model: made(self.name, model.parameters(), self.rate))

    def code(self) -> str:
        kind = KINDS[self.name]
        package = kind.made_by.partition(".")[0]
        told = "".join(f", {name}={value!r}" for name, value in kind.settings.items())
        return f"import {package if package == 'torch' else kind.made_by.rpartition('.')[0]}\n\noptimizer = {kind.made_by}(model.parameters(), lr={self.rate}{told})"


def _round(rate: float) -> float:
    return float(f"{rate:.3g}")
