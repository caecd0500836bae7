"""Forget gradients after an update instead of filling them with zeros.

Helps:      programs that call `zero_grad(set_to_none=False)`: a pass over all gradients is saved, and the next
            backward writes instead of adding.
Costs:      code that reads `.grad` between steps finds None.
Parity:     the same bits, unless a parameter gets no gradient in some step: with zeros, weight decay and momentum
            still move it, without a gradient they do not. Then the trial finds other bits and the change is dropped.
Undo:       the tensors that held the gradients come back, filled with zeros as the program would have left them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject, parameters_of


@dataclass(frozen=True, slots=True)
class SetToNone:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 20
    effort: ClassVar[float] = 0.5
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        return (
            "gradients are set to None already, as PyTorch does unless it is told otherwise"
            if subject.set_to_none
            else None
        )

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        touched = timeline.share("backward", "optimizer")
        return Prediction(
            low=0.0,
            high=0.1 * touched,  # one pass over the gradients among the many that backward and update make
            why=f"backward and update take {touched:.0%} of a step and pass over all gradients once more than needed",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        kept = [(parameter, parameter.grad) for parameter in parameters_of(subject.optimizer)]
        try:
            yield replace(subject, set_to_none=True)
        finally:
            for parameter, gradient in kept:
                if gradient is not None and parameter.grad is not gradient:
                    parameter.grad = gradient.zero_()

    def code(self) -> str:
        return "optimizer.zero_grad()  # set_to_none is the default"


EXAMPLES = (SetToNone(),)
