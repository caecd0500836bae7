"""A softmax or a sigmoid is applied to what is a probability already, at the output.

Looks for:  a softmax, log-softmax or sigmoid whose input came from a softmax or a sigmoid, with nothing between that changes it.
Matters:    every score is squeezed together (a certain answer of ten classes becomes 23 %): thresholds and averages are wrong, though
            the largest stays the largest (fault bench T09).
Try:        take one of the two away.
Not this:   a softmax of a log-softmax, which changes nothing; attention; a gate whose product is squeezed again.
"""

import torch
from torch import Tensor, nn

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, failed, item, passed
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

SQUEEZES = ("softmax", "log_softmax", "sigmoid")
PROBABILITIES = ("softmax", "sigmoid")
# What leaves numbers what they are, or nearly.
KEEPS = frozenset(
    {
        "view", "unsafe_view", "reshape", "clone", "detach", "alias", "contiguous", "clamp", "clamp_min", "clamp_max", "unsqueeze", "squeeze",
        "permute", "transpose", "t", "expand", "slice", "select", "to_copy", "cat", "stack",
    }
)  # fmt: skip
ROWS = 4


@item
def doubled_activation(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), tuple(tensor[:ROWS] for tensor in candidate.rows)
    held: list[Tensor] = []  # or an address would be used again
    squeezed: set[int] = set()
    doubled: dict[int, tuple[str, str]] = {}

    def look(func: object, args: tuple[object, ...], out: object) -> None:
        name, made = operations.name_of(func), operations.tensors(out)
        given = operations.tensors(args)
        held.extend((*made, *given))
        if name in SQUEEZES and given and id(given[0]) in squeezed:
            doubled.update({id(one): (name, operations.place()) for one in made})
        if name in PROBABILITIES:
            squeezed.update(map(id, made))
        elif name in KEEPS:
            for kept in given:
                if id(kept) in squeezed:
                    squeezed.update(map(id, made))
                if id(kept) in doubled:
                    doubled.update({id(one): doubled[id(kept)] for one in made})

    found = operations.tensors(operations.watched(model, rows, look))
    if not doubled:
        return passed("no activation is applied twice")
    at_the_end = [doubled[id(leaf)] for leaf in found if id(leaf) in doubled]
    name, where = at_the_end[0] if at_the_end else next(iter(doubled.values()))
    at = f" at {where}" if where else ""
    return failed(
        f"a {name.replace('_', '-')}{at} is applied to what a softmax or a sigmoid gave"
        + ("" if at_the_end else ", inside the module"),
        fix="take one of the two away: give scores from `forward`, or probabilities once",
        where=where,
        warning=not at_the_end,
        outputs=float(len(at_the_end)),
    )


class _Shares(nn.Module):
    """Wrapped for serving, though the model has its softmax already."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside, self.last = inside, nn.Softmax(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.Tensor(self.last(self.inside(x).clamp_min(1e-9)))


def _log_softmax(x: Tensor) -> Tensor:
    return x.log_softmax(1)


SICK = (
    lambda: candidate(_Shares(trained(Net(lambda x: x.softmax(1)))).eval()),
    lambda: candidate(trained(Net(lambda x: x.sigmoid().unsqueeze(1).sigmoid().squeeze(1)))),
    lambda: candidate(trained(Net(lambda x: x.softmax(1).log_softmax(1)))),
)
WELL = (
    candidate,
    lambda: candidate(_Shares(trained(Net())).eval()),
    lambda: candidate(trained(Net(lambda x: (x.sigmoid() * x).sigmoid()))),
    lambda: candidate(trained(Net(lambda x: x.log_softmax(1).softmax(1)))),
)
