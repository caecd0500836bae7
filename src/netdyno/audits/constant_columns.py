"""A column tells the model nothing, because it never changes.

Looks for:  a column (or a channel of pictures) with one value in all training samples that others or the evaluation change; or
            that is empty.
Matters:    nothing can be learned from it, and where evaluation has other values the weight of it was never trained.
Try:        look where the column is written: a failed join, a dead sensor, a default; else leave it out.
Not this:   edges of pictures, which are constant beside others that nearly are.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, View, audit, wrong
from netdyno.audits._features import named_column
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A value that the training split never has, in this share of evaluation rows, is no rare case that was missed by chance:
# 240 rows without one that five per cent have is a chance of 5e-6.
ELSEWHERE = 0.05
LEAST = 50
# Beside a stuck column the others live. In data where several hardly change (the edge of a picture), one may stand still.
LIVELY = 0.9
STILL = 0.95


@audit(modalities=("table", "images", "series", "tensors"))
def constant_columns(view: View) -> Finding | None:
    """Columns that stand still."""
    if len(view.train) < LEAST:
        return None
    rows = _by_column(view, view.train)
    still = np.flatnonzero(_constant(rows))
    if len(still) == 0:
        return None
    dead = [int(at) for at in still if _dead(view, rows, int(at))]
    if not dead:
        return None
    return wrong(
        f"{len(dead)} of {rows.shape[1]} {_kind(view)} never change{'s' if len(dead) == 1 else ''} in `train`: "
        + ", ".join(f"{_named(view, at)} {_value(rows[:, at])}" for at in dead[:5]),
        fix="look where it is written (a failed join, a dead sensor, a default value), or leave it out in both splits",
        because={"columns": float(len(dead)), "of": float(rows.shape[1])},
        confidence=0.9,
        explains=("covariate-shift",),
    )


def _constant(rows: Array) -> Array:
    there = np.isfinite(rows)
    low = np.where(there, rows, np.inf).min(0)
    high = np.where(there, rows, -np.inf).max(0)
    return ~(high > low)


def _dead(view: View, rows: Array, at: int) -> bool:
    if not np.isfinite(rows[:, at]).any():
        return True
    for part in view.others:
        theirs = _by_column(view, part)[:, at]
        if len(theirs) >= LEAST and np.mean(theirs != rows[0, at]) >= ELSEWHERE:
            return True
    others = np.delete(rows, at, axis=1)
    if others.shape[1] < 2 or view.modality == "series":
        return False
    # A dead channel of pictures, or a column of a file among columns that live.
    return bool(np.mean([_commonest(column) < STILL for column in others.T]) >= LIVELY)


def _commonest(column: Array) -> float:
    return float(np.unique(column, return_counts=True)[1].max() / len(column))


def _by_column(view: View, part: Part) -> Array:
    """Pictures by channel, a pixel of each (others follow it); everything else as it is."""
    if view.modality != "images":
        return part.rows
    x = np.asarray(part.x, dtype=np.float64)
    # The range over the pixels of a picture: a channel is still only if no pixel ever moves.
    return x.reshape(len(x), x.shape[1], -1).std(2) + np.abs(x.reshape(len(x), x.shape[1], -1)).mean(2)


def _kind(view: View) -> str:
    return "channels" if view.modality == "images" else "columns"


def _named(view: View, at: int) -> str:
    return f"channel {at}" if view.modality == "images" else named_column(view, at)


def _value(column: Array) -> str:
    there = column[np.isfinite(column)]
    return f"is always {there[0]:.6g}" if len(there) else "is empty"


def _stuck(part: Part, value: float = 3.0) -> Part:
    x = part.x.copy()
    x[:, 1] = value
    return replace(part, x=x)


SICK = (
    lambda: specimen("table", train=_stuck, val=_stuck),
    lambda: specimen("table", train=_stuck),
    lambda: specimen("table", train=lambda part: _stuck(part, np.nan), val=lambda part: _stuck(part, np.nan)),
    lambda: specimen("images", train=lambda part: _stuck(part, 0.0), val=lambda part: _stuck(part, 0.0)),
)


def _sparse(part: Part) -> Part:
    x = (part.x > 2.5).astype(np.float32)
    x[:, :2] = 0.0
    return replace(part, x=x)


# Everything moves; rare ones among which some never came.
WELL = (lambda: specimen("table"), lambda: specimen("table", train=_sparse, val=_sparse))
