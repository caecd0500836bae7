"""An answer to a real row is not a number.

Looks for:  NaN or plus infinity in the outputs for the example and for rows of the declared data, and the first operation that gives it.
Matters:    a client gets NaN, or class 0, for input that is in order.
Try:        a guard where the operation goes out of its range: an epsilon under the root, a clamp before the logarithm.
Not this:   minus infinity, with which masked choices are left out; numbers that only half precision cannot hold (see `half-range`).
"""

import torch
from torch import Tensor

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, Inputs, answers, failed, item, passed, plural
from netdyno.gates._specimens import Net, candidate, pictures, trained
from netdyno.records.deployment import GateCheck


@item
def output_finite(candidate: Candidate) -> GateCheck:
    model = candidate.model.eval()
    sources = {"the example": candidate.example, "real rows": candidate.rows}
    looked = 0
    for name, rows in sources.items():
        bad = [at for at, row in enumerate(_rows_of(answers(model, rows), len(rows[0]))) if row]
        looked += len(rows[0])
        if not bad:
            continue
        if any(bool(tensor[bad].isnan().any()) for tensor in rows if tensor.is_floating_point()):
            return failed(
                f"{plural(len(bad), 'row')} of {len(rows[0])} of {name} hold NaN themselves",
                fix="take them out of the data, or say what the service does with missing values before the module is asked",
                rows=float(len(bad)),
            )
        where = _first(model, rows)
        return failed(
            f"{plural(len(bad), 'row')} of {len(rows[0])} of {name} are answered with NaN or infinity{where}",
            fix="keep the operation in its range: an epsilon under a root or a quotient, a clamp before a logarithm or an exponential",
            where=where.rpartition(" ")[2],
            rows=float(len(bad)),
        )
    return passed("answers are finite", rows=float(looked))


def _rows_of(found: list[Tensor], count: int) -> list[bool]:
    """For each row whether an output holds NaN or plus infinity; all rows where an output has no axis of rows."""
    bad = torch.zeros(count, dtype=torch.bool)
    for leaf in found:
        if leaf.is_floating_point():
            wrong = leaf.isnan() | leaf.isposinf()
            bad |= wrong.reshape(count, -1).any(1) if leaf.dim() and len(leaf) == count else wrong.any()
    return bad.tolist()


def _first(model: torch.nn.Module, rows: Inputs) -> str:
    found: list[str] = []

    def look(func: object, _: tuple[object, ...], out: object) -> None:
        made = [one for one in operations.tensors(out) if one.is_floating_point()]
        if found or not any(bool((one.isnan() | one.isposinf()).any()) for one in made):
            return
        if "empty" not in operations.name_of(func):  # memory that nothing was written to yet
            at = operations.place()
            found.append(f", first from `{operations.name_of(func)}`" + (f" at {at}" if at else ""))

    operations.watched(model, rows, look)
    return found[0] if found else ""


def _rooted(x: Tensor) -> Tensor:
    return (x - x.mean()).sqrt()


def _blank() -> tuple[Tensor, Tensor]:
    x, y = pictures()
    x[:12] = 0.0
    return x, y


class _Unit(Net):
    """Divides by the length of the input: an empty picture has none."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.Tensor(super().forward(x / x.flatten(1).norm(dim=1).view(-1, 1, 1, 1)))


def _masked(x: Tensor) -> Tensor:
    return x.masked_fill(x < x.mean(1, keepdim=True), float("-inf"))


SICK = (lambda: candidate(trained(Net(_rooted), steps=1)), lambda: candidate(trained(_Unit()), data=_blank()))
WELL = (candidate, lambda: candidate(trained(Net()), data=_blank()), lambda: candidate(_masking()))


def _masking() -> Net:
    model = trained(Net())
    model.last = _masked
    return model
