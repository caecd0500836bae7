"""Blend two samples and their targets.

Helps:      small data; labels of which some are wrong; answers that are too sure.
Costs:      blends of images look like nothing that will ever be asked.
Not this:   inputs that are codes, such as words or categories, of which there is no middle.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import a_batch
from netdyno.knobs._losses import classes, with_loss
from netdyno.knobs._mixing import blended, no_single_labels, with_parts
from netdyno.records.study import Stage
from netdyno.targets.subject import Batch, target_of


@dataclass(frozen=True, slots=True)
class Mixup:
    """The share of the second sample is drawn from Beta(alpha, alpha): small alphas leave most samples nearly pure."""

    alpha: float = 0.2

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "asks for answers that change evenly from one sample to another"
    asks: ClassVar[str] = "should samples be blended, and how much?"
    effort_min: ClassVar[float] = 5.0
    order: ClassVar[int] = 44

    def refuses(self, setup: Setup) -> str | None:
        if self.alpha <= 0:
            return f"an alpha of `{self.alpha}` blends nothing"
        batch = a_batch(setup)
        if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[0], Tensor):
            return "a batch is not (inputs, target)"
        if not batch[0].is_floating_point():
            return "the inputs are whole numbers, of which there is no middle"
        return no_single_labels(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (Mixup(0.2), Mixup(0.4))

    def turned(self, setup: Setup) -> Setup:
        return replace(with_loss(setup), mix=(*setup.mix, Blended(classes(setup), self.alpha)))

    def code(self) -> str:
        return (
            f"kept = float(torch.distributions.Beta({self.alpha}, {self.alpha}).sample())\n"
            "order = torch.randperm(len(inputs))\n"
            "inputs = kept * inputs + (1 - kept) * inputs[order]\n"
            "labels = torch.nn.functional.one_hot(target, classes).float()\n"
            "target = kept * labels + (1 - kept) * labels[order]"
        )


@dataclass(frozen=True)
class Blended:
    """Batch -> batch, target in shares of classes. One share for the whole batch."""

    classes: int
    alpha: float

    def __call__(self, batch: Batch) -> Batch:
        kept = float(torch.distributions.Beta(self.alpha, self.alpha).sample())
        inputs, order = batch[0], torch.randperm(len(batch[0])).to(batch[0].device)
        mixed = kept * inputs + (1 - kept) * inputs[order]
        return with_parts(batch, mixed, blended(target_of(batch), order, kept, self.classes))
