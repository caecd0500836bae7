"""An output does not have one answer per row on its first axis, or only for some numbers of rows.

Looks for:  outputs whose first axis is not the number of rows, for two, three and five rows; a forward that raises for one of them.
Matters:    a service puts requests together and cuts the answers apart again along the first axis: other layouts hand one client's
            answer to another.
Try:        give only what is served, with the rows first: `batch_first=True`, `hidden[-1]` instead of `(output, hidden)`.
Not this:   a batch of one that loses its axis (see `batch-of-one`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate, answers, failed, item, named_tensors, passed, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

# Odd and even, none a multiple of all: a reshape for pairs, or a size kept from the example, shows.
COUNTS = (2, 3, 5)


@item
def rows_first(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), candidate.rows
    if not candidate.release.dynamic:
        counts: tuple[int, ...] = (len(candidate.example[0]),)
        rows = candidate.example
    else:
        counts = COUNTS
    for count in counts:
        some = tuple(_of(tensor, count) for tensor in rows)
        try:
            found = answers(model, some)
        except Exception as error:
            return failed(
                f"{count} rows raise {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                fix="let `forward` take its number of rows from the input (`x.size(0)`), or declare `dynamic=False`",
                rows=float(count),
            )
        if not found:
            return unseen("the module answers with no tensor")
        for name, leaf in named_tensors(found):
            if not leaf.dim() or len(leaf) != count:
                return failed(
                    f"{name} has the shape {tuple(leaf.shape)} for {count} rows: its first axis does not count rows",
                    fix="give outputs with one answer per row on the first axis, and only those that are served "
                    "(`batch_first=True` for recurrent layers, no hidden state, no scalar loss)",
                    rows=float(count),
                )
    return passed(f"outputs have one answer per row for {', '.join(map(str, counts))} rows", counts=float(len(counts)))


def _of(tensor: Tensor, count: int) -> Tensor:
    times = -(-count // len(tensor))
    return torch.cat([tensor] * times)[:count]


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(8, 8, num_layers=2, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        out, hidden = self.cell(x.squeeze(1))
        return self.head(out[:, -1]), hidden


class _Last(_Recurrent):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[0]


SICK = (
    lambda: candidate(_Recurrent().eval()),
    lambda: candidate(_ending(lambda x: x.view(-1, 8))),
    lambda: candidate(_ending(lambda x: x.reshape(8, -1))),
    lambda: candidate(_ending(lambda x: x.mean())),
)
WELL = (
    candidate,
    lambda: candidate(trained(_Last())),
    lambda: candidate(trained(Net(lambda x: x)), dynamic=False),
)


def _ending(last: Callable[[Tensor], Tensor]) -> Net:
    """Pairs of rows put together, a number of rows kept from the example, one answer for all."""
    model = trained(Net())
    model.last = last
    return model
