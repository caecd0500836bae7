"""Keep images channels-last, the order convolutions read them in.

Helps:      2-D convolutions on recent CPUs and GPUs. Seen: 1.24x [1.23, 1.26] on a small ResNet, 2 AVX-512 cores.
Costs:      one copy of the weights and of their optimizer state; layers that insist on the other order copy back
            and forth, and then it loses.
Parity:     sums may run in another order, so allow for rounding.
Undo:       weights, gradients and optimizer state go back into the storages they came from.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import LayerTable, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.samples import first_batch
from netdyno.targets.subject import Batch, Subject, mapped, tensors

# 1.16x to 1.31x was seen on small ResNets; a layout moves at most a third of what convolutions take.
MOST_OF_A_CONVOLUTION = 0.33
LEAST_CONVOLUTION = 0.05  # of a step; a third of less is below any gain that a trial can show


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 10
    effort: ClassVar[float] = 2.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        weights = _weights(subject.model)
        if not weights:
            others = sorted({type(m).__name__ for m in subject.model.modules() if isinstance(m, _OTHER_CONVOLUTIONS)})
            if others:
                return f"channels-last is an order of 2-D images; the model has only {', '.join(others)}"
            return "the model has no 2-D convolution"
        ordered = [weight for weight in weights if _ordered(weight)]
        if ordered and all(weight.is_contiguous(memory_format=torch.channels_last) for weight in ordered):
            return "the weights of the 2-D convolutions are channels-last already"
        return _no_images(subject)

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        share = timeline.share("forward", "backward") * _share_of_convolutions(facts.get(LayerTable))
        if share < LEAST_CONVOLUTION:
            return None
        return Prediction(
            low=0.0,
            high=MOST_OF_A_CONVOLUTION * share,
            why=f"2-D convolutions take {share:.0%} of a step; layout moves at most a third of that",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        weights = _weights(subject.model)
        kept = [_moved(weight, subject.optimizer) for weight in weights]
        try:
            yield subject.with_place(_channels_last)
        finally:
            for weight, before in zip(weights, kept, strict=True):
                _put_back(weight, subject.optimizer, before)

    def code(self) -> str:
        return (
            "model = model.to(memory_format=torch.channels_last)  # before the optimizer is made\n"
            "images = images.to(memory_format=torch.channels_last)"
        )


_OTHER_CONVOLUTIONS = (nn.Conv1d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose3d)


def _weights(model: nn.Module) -> list[nn.Parameter]:
    """The weights of 2-D convolutions, each once."""
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)]
    found: dict[int, Any] = {id(module.weight): module.weight for module in convolutions}
    return [weight for weight in found.values() if not nn.parameter.is_lazy(weight)]


def _ordered(weight: Tensor) -> bool:
    """True when the two orders differ at all; a 1x1 kernel and one channel are contiguous in both."""
    return weight.shape[2] * weight.shape[3] > 1 and weight.shape[1] > 1


def _no_images(subject: Subject) -> str | None:
    if subject.feed.iterable:
        return None  # looking would use up what the stream has first
    sizes = sorted({tensor.dim() for tensor in tensors(subject.placed(first_batch(subject.feed)))})
    if 4 in sizes:
        return None
    return f"no tensor of a batch has 4 dimensions (they have {', '.join(map(str, sizes)) or 'none'})"


def _share_of_convolutions(table: LayerTable | None) -> float:
    if table is None or not table.layers:
        return 1.0
    whole = sum(layer.seconds for layer in table.layers)
    convolutions = sum(layer.seconds for layer in table.layers if layer.kind in {"Conv2d", "ConvTranspose2d"})
    return convolutions / whole if whole else 0.0


@dataclass(frozen=True)
class _Before:
    data: Tensor
    grad: Tensor | None
    state: dict[str, Tensor]


def _moved(weight: nn.Parameter, optimizer: torch.optim.Optimizer) -> _Before:
    """Puts a weight and all that belongs to it into channels-last order; gives what was there.

    Gradient and optimizer state must follow: fused optimizers walk through memory, not through indices, and
    two orders in one update mix up the elements without a word.
    """
    state = _like(weight, optimizer)
    before = _Before(weight.data, weight.grad, dict(state))
    weight.data = _laid(weight.data)
    if before.grad is not None:
        weight.grad = _laid(before.grad)
    for name, value in state.items():
        optimizer.state[weight][name] = _laid(value)
    return before


def _put_back(weight: nn.Parameter, optimizer: torch.optim.Optimizer, before: _Before) -> None:
    learned = weight.data
    before.data.copy_(learned)
    weight.grad, gradient = None, weight.grad  # a gradient may not be there while the order of its weight changes
    weight.data = before.data
    if gradient is not None:
        weight.grad = _into(before.grad, gradient)
    for name, value in _like(weight, optimizer).items():
        optimizer.state[weight][name] = _into(before.state.get(name), value)


def _like(weight: nn.Parameter, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer state of a weight that has the weight's shape."""
    state: dict[str, Any] = optimizer.state.get(weight, {})
    return {name: value for name, value in state.items() if isinstance(value, Tensor) and value.shape == weight.shape}


def _into(place: Tensor | None, value: Tensor) -> Tensor:
    """The value in the tensor it was in before, or in the usual order when it is new."""
    if place is None:
        return value.contiguous()
    with torch.no_grad():
        return place.copy_(value)


def _laid(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _channels_last(batch: Batch) -> Batch:
    return mapped(batch, _laid)


EXAMPLES = (ChannelsLast(),)
