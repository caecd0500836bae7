"""A weight or a buffer is not a number.

Looks for:  NaN in parameters and buffers, infinity in parameters.
Matters:    every answer that goes through it is NaN, and a runtime may hide it: the largest of NaNs is class 0.
Try:        a checkpoint from before the loss went to NaN; a look at what overflowed.
Not this:   infinity in a buffer, with which attention masks are made.
"""

import torch
from torch import nn

from netdyno.gates._base import Candidate, failed, item, names, passed
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck


@item
def finite_weights(candidate: Candidate) -> GateCheck:
    model = candidate.model
    weights = [
        name for name, one in model.named_parameters() if one.is_floating_point() and not bool(one.isfinite().all())
    ]
    buffers = [name for name, one in model.named_buffers() if one.is_floating_point() and bool(one.isnan().any())]
    found = [*weights, *buffers]
    if not found:
        return passed("all weights are finite", tensors=float(sum(1 for _ in model.state_dict())))
    return failed(
        f"{names(found)} {'holds' if len(found) == 1 else 'hold'} numbers that are not finite",
        fix="go back to a checkpoint from before that, and look for the step in which the loss or a gradient was not finite",
        where=found[0],
        tensors=float(len(found)),
    )


def _planted(value: float, where: str) -> nn.Module:
    model = trained(Net())
    with torch.no_grad():
        model.get_parameter(where).view(-1)[3] = value
    return model


class _Masked(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))


SICK = (
    lambda: candidate(_planted(float("nan"), "head.weight")),
    lambda: candidate(_planted(float("inf"), "conv.bias")),
)
WELL = (candidate, lambda: candidate(trained(_Masked())))
