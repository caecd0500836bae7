"""The forward decides in Python on the values of a tensor.

Looks for:  a number taken out of a tensor while the module answers: `if x.max() > 1`, `.item()`, `int(n)`; with the line.
Matters:    a trace keeps the side that the example took, for all inputs to come (fault bench P07); torch.export refuses it.
Try:        `torch.where`, `clamp`, or the same arithmetic on both sides.
Not this:   a fault of the module in eager mode, so it is a warning: the parity ladder runs rows of both sides through what was exported.
"""

import torch
from torch import Tensor, nn

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, failed, item, names, passed
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck


@item
def python_branch(candidate: Candidate) -> GateCheck:
    if isinstance(candidate.model, torch.jit.ScriptModule):
        return passed("it is a script already")
    places: dict[str, None] = {}

    def look(func: object, _: object, __: object) -> None:
        if operations.name_of(func) in {"local_scalar_dense", "is_nonzero", "equal", "nonzero"}:
            at = operations.place()
            if at:
                places.setdefault(at)

    operations.watched(candidate.model.eval(), candidate.rows, look)
    if not places:
        return passed("no number is taken out of a tensor")
    return failed(
        f"`forward` takes a number out of a tensor at {names(list(places))}: what is traced keeps the choice of its example",
        fix="write the choice with `torch.where`, `clamp` or a mask",
        where=next(iter(places)),
        warning=True,
        places=float(len(places)),
    )


class _Branching(Net):
    def forward(self, x: Tensor) -> Tensor:
        if x.min() < -0.5:
            x = x + 0.8
        return torch.Tensor(super().forward(x))


SICK = (lambda: candidate(trained(_Branching())),)
WELL = (candidate, lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))))
