"""A single request is answered with another shape than a row of a batch, or not at all.

Looks for:  a batch of one row whose answer has fewer axes, or another shape, than one row of a batch of two; a forward that raises.
Matters:    most requests come alone: a `squeeze()` takes the axis of the rows with it, and the class is read from the wrong place.
Try:        `squeeze(-1)`, or a reshape that names its axes.
Not this:   answers that never have rows first (see `rows-first`).
"""

import math

from torch import Tensor

from netdyno.gates._base import Candidate, answers, apart, failed, item, named_tensors, passed, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

# Of the spread of the answers: one row may take other kernels than two, but it is the same row.
ALLOWED = 1e-2


@item
def batch_of_one(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), candidate.rows
    pair = answers(model, tuple(tensor[:2] for tensor in rows))
    try:
        single = answers(model, tuple(tensor[:1] for tensor in rows))
    except Exception as error:
        return failed(
            f"a batch of one row raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            fix="make `forward` keep the axis of the rows: `squeeze(-1)`, `flatten(1)`; no normalisation over the batch",
            rows=1.0,
        )
    if len(single) != len(pair):
        return failed(
            f"one row gives {len(single)} outputs and two rows give {len(pair)}",
            fix="give the same outputs for any number of rows",
            rows=1.0,
        )
    for (name, one), two in zip(named_tensors(single), pair, strict=True):
        if one.dim() != two.dim() or one.shape[1:] != two.shape[1:]:
            return failed(
                f"{name} of one row has the shape {tuple(one.shape)}, and that of two rows {tuple(two.shape)}",
                fix="write `squeeze(-1)`, or the axis that is meant, instead of `squeeze()`",
                axes=float(one.dim()),
                expected_axes=float(two.dim()),
            )
    if any(not leaf.dim() for leaf in pair):
        return unseen("an answer has no axis of rows (see `rows-first`)")
    again = [leaf[:1] for leaf in pair]
    whole = answers(model, rows)
    worst = max((_of(one, two, leaf) for one, two, leaf in zip(single, again, whole, strict=True)), default=0.0)
    if worst > ALLOWED and apart(whole, answers(model, rows)) == 0:
        return failed(
            f"one row is answered differently alone than in a batch of two, by {worst:.2g} of the answers' spread",
            fix="look for what depends on the number of rows: a branch on it, a mean or a softmax over rows",
            worst=worst,
        )
    return passed("one row is answered as it is in a batch", worst=worst)


def _of(one: Tensor, two: Tensor, whole: Tensor) -> float:
    """How far the two answers to one row are apart, in spreads of all answers."""
    spread = float(whole.double().std(correction=0)) if whole.is_floating_point() else 0.0
    distance = apart([two], [one]) if not spread else float((one.double() - two.double()).abs().max()) / spread
    return 0.0 if math.isnan(distance) else min(distance, 1e9)


def _squeezed(x: Tensor) -> Tensor:
    return x.squeeze()


def _first(x: Tensor) -> Tensor:
    """A regression's only value."""
    return x[:, :1].squeeze()


def _raising(x: Tensor) -> Tensor:
    return x.squeeze().unbind(1)[0]


SICK = (
    lambda: candidate(trained(Net(_squeezed))),
    lambda: candidate(_regression(_first)),
    lambda: candidate(_regression(_raising)),
)
WELL = (candidate, lambda: candidate(_regression(lambda x: x[:, :1].squeeze(-1))))


def _regression(last: object) -> Net:
    model = trained(Net())
    model.last = last  # type: ignore[assignment]
    return model
