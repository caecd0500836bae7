"""Inputs were scaled with numbers that know the other splits.

Looks for:  means of 0 and deviations of 1 (or ranges of exactly 0 to 1) of all splits taken together, to the last digits, where
            training alone has others.
Matters:    what is judged on has taken part in what is learned from; the score is a little, and with few samples a lot, too good.
Try:        split first; fit the scaler on the training split alone and apply it to all.
Not this:   a selection of columns that saw all samples: no trace of it is left in the data, so nothing is said about it (do it
            inside the cross-validation); data that came scaled by other constants.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._learners import others
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Rounding of float32 leaves some 1e-7 times the largest value. Training alone is off by ten times that and more even where a column
# has a million values (the pixels of all pictures).
EXACT, OFF = 2e-5, 2e-4
# A column or two are exact by accident (an index, a flag); nearly all are not.
MOST_COLUMNS = 0.9
# Values seen once and in many steps: quantities that end at 0 or 1 by nature touch the end more than once.
STEPS = 20
# So many ends that only another split touches: one may be chance.
ENDS = 3


@audit(stage="data")
def early_statistics(view: View) -> Finding | None:
    others(view)
    if view.modality == "text":
        raise Skip("texts are not scaled")
    if any(len(part) < part.total for part in view.parts.values()):
        raise Skip("only some of the samples were read; sums over all of them are needed")
    for parts in _together(view):
        columns = [_columns(view, part) for part in parts]
        found = _standardised(columns) or _ranged(view, columns)
        if found is not None:
            return _told(parts, *found)
    return None


def _together(view: View) -> Iterator[tuple[Part, ...]]:
    """Training with some or all of the others, all of them first."""
    for count in range(len(view.others), 0, -1):
        for chosen in combinations(view.others, count):
            yield (view.train, *chosen)


def _columns(view: View, part: Part) -> Array:
    """One column per feature, of pictures one per channel."""
    if view.modality != "images":
        return part.rows
    return np.moveaxis(np.asarray(part.x, dtype=np.float64), 1, -1).reshape(-1, np.shape(part.x)[1])


def _standardised(columns: list[Array]) -> tuple[str, dict[str, float]] | None:
    """Whether all together have mean 0 and deviation 1, and training alone has not."""
    whole, train = np.vstack(columns), columns[0]
    live = (np.ptp(whole, axis=0) > 0) & np.isfinite(whole).all(0)
    if not live.any() or len(train) < 20:
        return None
    exact = _off(whole[:, live]) < EXACT
    apart = _off(train[:, live]) > OFF
    if exact.mean() < MOST_COLUMNS or (exact & apart).sum() < MOST_COLUMNS * exact.sum():
        return None
    mean, worst = float(np.abs(whole[:, live].mean(0)).max()), float(np.abs(train[:, live].mean(0)).max())
    return (
        f"mean 0 and deviation 1 to {EXACT:g} or better in {exact.sum()} of {live.sum()} columns, training alone up to {worst:.2g} off",
        {"columns": float(exact.sum()), "mean_of_all": mean, "mean_of_training": worst},
    )


def _off(rows: Array) -> Array:
    """How far each column is from mean 0 and deviation 1, by whichever of the two deviations is in use."""
    deviations = np.minimum(np.abs(rows.std(0) - 1), np.abs(rows.std(0, ddof=1) - 1))
    return np.maximum(np.abs(rows.mean(0)), deviations)


def _ranged(view: View, columns: list[Array]) -> tuple[str, dict[str, float]] | None:
    """Whether all together run from 0 to 1 in every column, with ends that one sample touches, and not one of training."""
    whole, train = np.vstack(columns), columns[0]
    fine = np.array([len(np.unique(column)) >= STEPS for column in whole.T]) & np.isfinite(whole).all(0)
    if view.modality == "images" or fine.sum() < 2:
        return None
    for low, high in ((0.0, 1.0), (-1.0, 1.0)):
        ends = [(np.abs(whole[:, fine] - end) < EXACT, np.abs(train[:, fine] - end) < EXACT) for end in (low, high)]
        if not all(all_.any(0).all() for all_, _ in ends) or _outside(whole[:, fine], low, high):
            continue
        lone = sum(int(((all_.sum(0) == 1) & ~mine.any(0)).sum()) for all_, mine in ends)
        if lone >= ENDS:
            says = (
                f"exactly {low:g} to {high:g} in every column, and {lone} of the ends are touched outside training only"
            )
            return says, {"columns": float(fine.sum()), "ends": float(lone)}
    return None


def _outside(rows: Array, low: float, high: float) -> bool:
    return bool(rows.min() < low - EXACT or rows.max() > high + EXACT)


def _told(parts: tuple[Part, ...], says: str, because: dict[str, float]) -> Finding:
    names = " and ".join(part.name for part in parts)
    return wrong(
        f"the inputs were scaled with statistics of {names} together: these have {says}",
        fix="split first, then fit the scaler on training alone: `scaler.fit(x_train)`",
        because=because,
        layer="generalisation",
    )


def _scaled(view: View, *, on: tuple[str, ...], ranged: bool = False) -> View:
    """The view with every column standardised (or brought to 0 … 1) by the statistics of the named splits."""
    rows = np.vstack([view.parts[name].rows for name in on])
    low, width = (rows.min(0), np.ptp(rows, axis=0)) if ranged else (rows.mean(0), rows.std(0))
    parts = {
        name: replace(part, x=((part.rows - low) / width).astype(np.float32).reshape(np.shape(part.x)))
        for name, part in view.parts.items()
    }
    return replace(view, parts=parts)


SICK = (
    lambda: _scaled(specimen("table"), on=("train", "val")),
    lambda: _scaled(specimen("table", seed=2), on=("train", "val"), ranged=True),
    lambda: _scaled(specimen("series"), on=("train", "val")),
)
WELL = (
    lambda: specimen("table"),
    lambda: _scaled(specimen("table"), on=("train",)),
    lambda: _scaled(specimen("table"), on=("train",), ranged=True),
    lambda: specimen("images"),
)
