"""Learn from the answers of a trained teacher as well: alpha * T² * KL + (1 - alpha) * cross-entropy.

Helps:      small models beside a better large one: the teacher tells how alike the wrong classes are.
Costs:      one answer of the teacher per batch; the teacher.
Needs:      `teacher=` in the workload: a function that gives the trained model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import no_classes, soft_divergence, teacher_of
from netdyno.records.study import Stage
from netdyno.targets.subject import Batch

NO_TEACHER = "there is no teacher: declare `teacher=`, a function that gives a trained model"


@dataclass(frozen=True, slots=True)
class Distillation:
    """`alpha` is the teacher's share of the loss, `temperature` how much both are softened."""

    alpha: float = 0.5
    temperature: float = 4.0

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "asks for the teacher's shares of all classes beside the one label"
    asks: ClassVar[str] = "how much can be learned from the teacher, and how soft?"
    effort_min: ClassVar[float] = 15.0
    order: ClassVar[int] = 60  # it wraps whatever loss stands, mixed labels included

    def refuses(self, setup: Setup) -> str | None:
        if not 0 <= self.alpha <= 1 or self.temperature <= 0:
            return f"alpha `{self.alpha}` must lie in 0 to 1, and the temperature `{self.temperature}` above 0"
        return NO_TEACHER if teacher_of(setup) is None else no_classes(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(Distillation(0.5, temperature) for temperature in (4.0, 1.0, 2.0, 7.0, 10.0))

    def turned(self, setup: Setup) -> Setup:
        teacher = teacher_of(setup)
        assert teacher is not None
        loss = Taught(setup.loss, setup.forward, teacher, self.alpha, self.temperature)
        return replace(setup, loss=loss)

    def code(self) -> str:
        return (
            "with torch.no_grad():\n"
            "    taught = teacher(images)\n"
            "soft = torch.nn.functional.kl_div(\n"
            f"    torch.log_softmax(output / {self.temperature}, 1), torch.log_softmax(taught / {self.temperature}, 1),\n"
            '    reduction="batchmean", log_target=True,\n'
            f") * {self.temperature}**2\n"
            f"loss = {self.alpha} * soft + (1 - {self.alpha}) * loss"
        )


@dataclass(frozen=True, eq=False)
class Taught:
    """A loss with a teacher's share in it."""

    own: Callable[[Any, Batch], Tensor]
    forward: Callable[[nn.Module, Batch], Any]
    teacher: nn.Module
    alpha: float
    temperature: float

    def __call__(self, output: Tensor, batch: Batch) -> Tensor:
        with torch.no_grad():
            taught = self.forward(self.teacher, batch)
        soft = soft_divergence(output, taught, temperature=self.temperature)
        return self.alpha * soft + (1 - self.alpha) * self.own(output, batch)
