"""Pull weights towards zero at every update, biases and the scales of norms left alone.

Helps:      models that fit their training data more closely than their validation data.
Costs:      too much of it, and nothing is fitted any more.
Look at:    rate times decay: in AdamW their product is the share that a weight loses with each update.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._optimizers import built, decay_matrices, with_optimizer
from netdyno.records.study import Stage

# 1e-4 and 5e-4 are usual with SGD, 0.01 and 0.1 with AdamW (whose decay is multiplied by a rate a hundred times smaller).
COUPLED = (5e-4, 1e-4, 5e-3)
DECOUPLED = (0.05, 0.01, 0.3)
# Optimizers whose decay does not run through the gradient.
APART = ("AdamW", "Adafactor", "Lion", "LAMB", "Lamb", "AdamW8bit", "Muon")


@dataclass(frozen=True, slots=True)
class WeightDecay:
    """`value` for weights of two dimensions or more, 0 for all others."""

    value: float = 0.01

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "dampens weights that no gradient holds up, so that the fit stays smooth"
    asks: ClassVar[str] = "how strongly should weights be pulled to zero?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 52  # groups are split once the optimizer stands

    def refuses(self, setup: Setup) -> str | None:
        if not 0 <= self.value < float("inf"):
            return f"a decay of `{self.value}` is none"
        optimizer = built(setup)
        if "weight_decay" not in optimizer.param_groups[0]:
            return f"`{type(optimizer).__name__}` has no weight decay"
        if not any(weight.ndim >= 2 for group in optimizer.param_groups for weight in group["params"]):
            return "the model has biases and scales only, which are not decayed"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        optimizer = built(setup)
        apart = type(optimizer).__name__ in APART or optimizer.param_groups[0].get("decoupled_weight_decay", False)
        return tuple(WeightDecay(value) for value in (DECOUPLED if apart else COUPLED))

    def turned(self, setup: Setup) -> Setup:
        return with_optimizer(setup, lambda optimizer: decay_matrices(optimizer, self.value))

    def code(self) -> str:
        return (
            "for group in list(optimizer.param_groups):  # biases and the scales of norms are not decayed\n"
            '    flat = [weight for weight in group["params"] if weight.ndim < 2]\n'
            '    group["params"] = [weight for weight in group["params"] if weight.ndim >= 2]\n'
            f'    group["weight_decay"] = {self.value}\n'
            "    if flat:\n"
            '        optimizer.add_param_group({**group, "params": flat, "weight_decay": 0.0})'
        )
