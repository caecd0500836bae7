"""Fold each batch norm into the convolution before it: for a model that has been trained.

Helps:      inference: one layer less per convolution, with the same answers. `fold(model)` gives the folded copy.
Costs:      nothing, once training is over.
Parity:     two products are multiplied into one beforehand: 1e-6 apart.
Undo:       the model is not touched; the folded copy serves evaluation only, and is made anew when weights have moved.
Not for training: there batch norm needs the statistics of each batch, so in trials of training steps it is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import nn

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.folding import fold, pairs
from netdyno.targets.subject import Subject


@dataclass(frozen=True, slots=True)
class ConvBnFold:
    layers: ClassVar[tuple[str, ...]] = ("compute", "deployment")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 12
    effort: ClassVar[float] = 3.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if not pairs(subject.model):
            return "no batch norm of the model stands right behind a convolution"
        return "it helps only at inference; in training steps batch norm needs the statistics of each batch"

    def predicts(self, facts: Facts) -> Prediction | None:
        return None  # a trial times training steps, and in those nothing is folded

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return ()

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        if subject.called is not None or not pairs(subject.model):
            yield subject
        else:
            yield replace(subject, called=_FoldedInEvaluation(subject.model))

    def code(self) -> str:
        return "from netdyno.targets.folding import fold\nserved = fold(model.eval())"


class _FoldedInEvaluation:
    """The model itself in training; in evaluation its folded copy, made anew when a weight or statistic has moved."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.folded: nn.Module | None = None
        self.folded_from: tuple[tuple[int, int], ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.model.training:
            self.folded = None
            return self.model(*args, **kwargs)
        if self.folded is None or self.folded_from != self._versions():
            self.folded, self.folded_from = fold(self.model), self._versions()
        return self.folded(*args, **kwargs)

    def _versions(self) -> tuple[tuple[int, int], ...]:
        tensors = (*self.model.parameters(), *self.model.buffers())
        return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)


EXAMPLES = (ConvBnFold(),)
