"""Training samples are there several times.

Looks for:  rows that are equal to an earlier one, in a good part of the training split, and too rich to be equal by chance.
Matters:    repeated samples weigh more than the others, and a random split puts their copies on both sides.
Try:        remove the copies before the split, or keep them and split by what they copy.
Not this:   tables of few levels, where rows meet by chance; rare classes drawn several times on purpose; copies in another split
            (see `leaked-duplicates`).
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._repeats import distinctive, repeated
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A twentieth of all rows: below, collections hold some by accident and no score moves.
MANY, LEAST = 0.05, 5
# It may be meant: oversampling writes copies too.
SUSPECTED = 0.6


@audit()
def exact_duplicates(view: View) -> Finding | None:
    """Copies among the training samples."""
    train = view.train
    if len(train) < 2:
        raise Skip("the training split has fewer than two samples")
    copies = repeated(view, train)
    share = len(copies.rows) / len(train)
    if len(copies.rows) < LEAST or share < MANY or not distinctive(view, train, copies.rows, train):
        return None
    return wrong(
        f"{len(copies.rows)} of {len(train)} training samples ({share:.1%}) are equal to an earlier one{_alone(view, train, copies.rows)}",
        fix="drop the copies before the data are split, or weigh samples instead of copying them",
        because={"share": share, "copies": float(len(copies.rows))},
        exhibits=tuple(
            shown(view, train, row, f"equal to sample {train.indices[twin]}")
            for row, twin in zip(copies.rows.tolist(), copies.twins.tolist(), strict=True)
        )[:8],
        confidence=SUSPECTED,
    )


def _alone(view: View, train: Part, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    """Copies of one class only have probably been made on purpose."""
    if view.task != "classes" or train.y is None:
        return ""
    kinds = np.unique(train.y[rows])
    return "" if len(kinds) > 1 else f", all of class {int(kinds[0])}: if they were drawn on purpose, nothing is wrong"


def _doubled(part: Part) -> Part:
    x = (
        list(part.x[:200]) + list(part.x[:40])
        if isinstance(part.x, list)
        else np.concatenate((part.x[:200], part.x[:40]))
    )
    assert part.y is not None
    return replace(part, x=x, y=np.concatenate((part.y[:200], part.y[:40])))


def _coarse(part: Part) -> Part:
    return replace(part, x=np.clip(np.round(part.x[:, :3]), -1, 1))


SICK = (
    lambda: specimen("images", train=_doubled),
    lambda: specimen("table", train=_doubled),
    lambda: specimen("text", train=_doubled),
)
# All different; three columns of three levels each.
WELL = (
    lambda: specimen("images"),
    lambda: specimen("table", train=_coarse, val=_coarse, columns=("a", "b", "c")),
)
