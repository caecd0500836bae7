"""Forward in a lower precision, loss in float32: what both autocast interventions share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from netdyno.targets.subject import Batch, Subject, mapped

LOW = (torch.bfloat16, torch.float16)


def autocasting(subject: Subject, dtype: torch.dtype) -> Subject:
    """The subject with its forward under autocast. The loss sees float32 and runs outside autocast.

    A loss sums many small terms, on the CPU autocast leaves softmax in the low type, and some losses (binary
    cross-entropy of probabilities) raise an error under autocast; in float32 all of them are right.
    """
    device = subject.device.type
    changed = subject.with_forward(partial(torch.autocast, device, dtype=dtype))
    return replace(changed, loss=_InFloat32(subject.loss, device))


class _InFloat32:
    """A loss that is given float32, whatever the model gave, and computes in it."""

    def __init__(self, loss: Callable[[Any, Batch], Tensor], device: str) -> None:
        self.loss = loss
        self.device = device

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        with torch.autocast(self.device, enabled=False):
            return self.loss(mapped(output, _widened), batch)


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in LOW else tensor


def no_gain_from(subject: Subject) -> str | None:
    """Why autocast can change nothing in this model, whatever the machine."""
    parameters = list(subject.model.parameters())
    types = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})
    if "float32" not in types:
        return f"the model's parameters are {', '.join(types)}; autocast lowers float32 only" if types else None
    if all(parameter.dim() < 2 for parameter in parameters):
        return "the model has no weight matrix, so no product that a lower precision would quicken"
    return None
