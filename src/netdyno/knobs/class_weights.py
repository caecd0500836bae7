"""Let rare classes count more in the loss.

Helps:      metrics in which every class counts alike, on classes that do not occur alike.
Costs:      plain accuracy usually falls, for the common class is believed less; noisy gradients from few samples.
Not this:   together with a weighted sampler, which would make up for the same twice.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import UNEVEN, class_weights, imbalance, no_labels, with_loss
from netdyno.records.study import Stage


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """Each class weighs its count to the power of minus `power`: 1 makes up for all of the difference, 0.5 for part of it."""

    power: float = 0.5

    stage: ClassVar[Stage] = "data"
    reason: ClassVar[str] = "scales the gradient of each class by how seldom it is seen"
    asks: ClassVar[str] = "how much should rare classes count?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 30

    def refuses(self, setup: Setup) -> str | None:
        why = no_labels(setup)
        if why is not None:
            return why
        if setup.sampler is not None:
            return "a sampler evens out the classes already"
        times = imbalance(setup)
        return None if times >= UNEVEN else f"the commonest class is only {times:.2f} times as common as the rarest"

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (ClassWeights(0.5), ClassWeights(1.0))

    def turned(self, setup: Setup) -> Setup:
        return with_loss(setup, weight=class_weights(setup, self.power))

    def code(self) -> str:
        return (
            f"weight = torch.bincount(targets, minlength=classes).clamp(min=1).float() ** -{self.power}\n"
            "weight *= len(targets) / weight[targets].sum()\n"
            "loss = torch.nn.functional.cross_entropy(output, target, weight=weight)"
        )
