"""A number on the way to the answer is too large for half precision.

Looks for:  the largest number that any operation gives on real rows; half precision (fp16) holds 65,504.
Matters:    in fp16 it becomes infinity, and the answer NaN; bf16 has the range of fp32.
Try:        bf16; a scale before the square or the sum; that part in float32.
Not this:   a fault of the module as it is: it only keeps fp16 out, so it is a warning.
"""

import torch
from torch import Tensor

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, failed, item, passed
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

HALF = 65504.0
# Rows that come later are not the largest of these few: half of the range is kept free.
SPARE = 0.5


@item
def half_range(candidate: Candidate) -> GateCheck:
    model, largest, what = candidate.model.eval(), 0.0, ""

    def look(func: object, _: object, out: object) -> None:
        nonlocal largest, what
        name = operations.name_of(func)
        if "empty" in name:
            return
        for one in operations.tensors(out):
            if one.is_floating_point() and one.numel():
                # Masks are made of infinities and of the lowest number there is; both survive as minus infinity.
                real = one[one.isfinite() & (one > torch.finfo(one.dtype).min / 2)]
                size = float(real.abs().max()) if real.numel() else 0.0
                if size > largest:
                    at = operations.place()
                    largest, what = size, f"`{name}`" + (f" at {at}" if at else "")

    operations.watched(model, candidate.rows, look)
    if largest <= SPARE * HALF:
        return passed(f"the largest number on the way is {largest:.3g}, from {what}", largest=largest)
    return failed(
        f"{what} gives {largest:.3g}, and half precision holds {HALF:.5g}",
        fix="leave fp16 out (bf16 has the range of fp32), or scale before that operation",
        where=what.rpartition(" ")[2],
        warning=True,
        largest=largest,
    )


class _Energy(Net):
    """Lengths of large vectors, as in the fault P05."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * 400.0
        return torch.Tensor(super().forward(8.0 * x / (x * x).flatten(1).sum(1).view(-1, 1, 1, 1).sqrt()))


SICK = (lambda: candidate(trained(_Energy())),)
WELL = (candidate, lambda: candidate(trained(Net(lambda x: x.masked_fill(x < -1, torch.finfo(x.dtype).min)))))
