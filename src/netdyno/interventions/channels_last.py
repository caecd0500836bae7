"""Keep images channels-last, the order convolutions read them in.

Helps:      2-D convolutions on recent CPUs and GPUs.
Costs:      one copy of the weights; layers that insist on the other order copy back and forth.
Parity:     sums may run in another order, so allow for rounding.
Undo:       the original parameter storages are put back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import LayerTable, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Batch, Subject, mapped


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 10
    effort: ClassVar[float] = 2.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if any(isinstance(module, torch.nn.Conv2d) for module in subject.model.modules()):
            return None
        return "the model has no 2-D convolution"

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        table: LayerTable | None = facts.get(LayerTable)
        if timeline is None:
            return None
        compute = timeline.share("forward", "backward")
        convolution = 1.0
        if table is not None and table.layers:
            whole = sum(layer.seconds for layer in table.layers)
            convolution = (
                sum(layer.seconds for layer in table.layers if layer.kind == "Conv2d") / whole if whole else 0.0
            )
        # 1.16x to 1.26x on a small ResNet on the CPU this was developed on; layouts can also lose.
        return Prediction(
            low=0.0,
            high=0.35 * compute * convolution,
            why=f"convolutions take {compute * convolution:.0%} of a step; layout moves at most a third of that",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        kept = {parameter: parameter.data for parameter in subject.model.parameters()}
        subject.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        try:
            yield subject.with_place(_channels_last)
        finally:
            for parameter, data in kept.items():
                data.copy_(parameter.data)
                parameter.data = data

    def code(self) -> str:
        return (
            "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)"
        )


def _channels_last(batch: Batch) -> Batch:
    def move(tensor: Tensor) -> Tensor:
        return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    return mapped(batch, move)


EXAMPLES = (ChannelsLast(),)
