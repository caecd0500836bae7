"""Another bend between the layers: smooth ones let a little through below 0.

Helps:      networks in which many units never answer above 0.
Costs:      GELU and SiLU take an exponential each, ReLU a comparison.
Not this:   activations that are called as functions in `forward` are not seen.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import fresh, swapped, with_model
from netdyno.records.study import Stage

KINDS: dict[str, Any] = {"ReLU": nn.ReLU, "GELU": nn.GELU, "SiLU": nn.SiLU, "LeakyReLU": nn.LeakyReLU}


@dataclass(frozen=True, slots=True)
class Activation:
    """`kind` is the name of a module of torch.nn: ReLU, GELU, SiLU or LeakyReLU; it replaces those of the other three."""

    kind: str = "SiLU"

    stage: ClassVar[Stage] = "arch"
    reason: ClassVar[str] = "decides what gradient units get whose input is below 0"
    asks: ClassVar[str] = "which activation should stand between the layers?"
    effort_min: ClassVar[float] = 3.0
    order: ClassVar[int] = 12

    def refuses(self, setup: Setup) -> str | None:
        if self.kind not in KINDS:
            return f"`{self.kind}` is none of {', '.join(KINDS)}"
        there = _there(setup)
        if not there:
            return "the model holds none of " + ", ".join(KINDS) + " as a module"
        return f"the model has {self.kind} already" if there == {self.kind} else None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        there = _there(setup)
        return tuple(Activation(kind) for kind in ("GELU", "SiLU", "LeakyReLU", "ReLU") if {kind} != there)

    def turned(self, setup: Setup) -> Setup:
        return with_model(setup, lambda model: swapped(model, tuple(KINDS.values()), lambda _: KINDS[self.kind]()))

    def code(self) -> str:
        return f"activation = torch.nn.{self.kind}()"


def _there(setup: Setup) -> set[str]:
    return {type(module).__name__ for module in fresh(setup).modules() if isinstance(module, tuple(KINDS.values()))}
