"""A column holds values that are no values: codes for missing, or another unit.

Looks for:  a value that comes again and again far outside everything else (-999), or a group of values beyond a gap of a power of ten.
Matters:    they decide mean and deviation, so that all true values are squeezed into one; a model learns the code as an amount.
Try:        read the code as missing and fill it, convert the unit, or look at the named samples.
Not this:   heavy tails, which have no gap; a single extreme sample; columns that are skewed (see `skewed-column`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import named_column
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding

# What programs write for "missing". Nothing else is as likely to be a sign and not an amount.
CODES = (-1e30, -99999, -9999, -9990, -999, -99, 999, 9999, 99999, 999999, 1e30)
# A repeated value lies outside when it is away from all others by their whole range.
REPEATS, AWAY = 3, 1.0
# Counts of few levels have gaps by nature (0, 1, 3): there a code must be tens of times further out.
LEVELS, FAR = 10, 30.0
# How many values may lie beyond a gap, and how many must lie before it.
MOST, BEFORE = 0.2, 30
# The ratio of the k-th largest of a distribution with the tail 1/x to the next exceeds r with a chance of r**-k. This keeps it
# below one in a thousand per column: a lone value must be a thousand times the next, three ten times.
CHANCE = 1e-3
LEAST_RATIO = 10.0


class Outside(NamedTuple):
    """A column's values that are none: the rows, what they look like, and how far outside they are."""

    column: int
    rows: Array
    says: str
    ratio: float


@audit(modalities=("table", "series", "tensors"))
def outlying_values(view: View) -> Finding | None:
    """Codes and other units."""
    if len(view.train) < BEFORE:
        raise Skip(f"fewer than {BEFORE} training samples say too little about what is usual")
    found = [(part, each) for part in view.parts.values() for each in _outside(view, part)]
    if not found:
        return None
    part, worst = max(found, key=lambda each: each[1].ratio)
    names = sorted({named_column(view, each.column) for _, each in found})
    more = f" ({len(names)} columns are concerned: {', '.join(names[:5])})" if len(names) > 1 else ""
    return wrong(
        f"{named_column(view, worst.column)} of `{part.name}` {worst.says}{more}",
        fix="read such values as missing and fill them, or bring them to the unit of the others, before anything is computed from them",
        because={"values": float(len(worst.rows)), "share": len(worst.rows) / len(part), "times_the_rest": worst.ratio},
        exhibits=_exhibits(view, part, worst),
        explains=("skewed-column", "covariate-shift", "value-range", "split-scaling"),
    )


def _outside(view: View, part: Part) -> list[Outside]:
    levels = view.notes.get("categories", {})
    found = []
    for at, column in enumerate(part.rows.T):
        if at < len(view.columns) and view.columns[at] in levels:
            continue
        for look in (_code, _other_unit):
            seen = look(at, column)
            if seen is not None:
                found.append(seen)
                break
    return found


def _code(at: int, column: Array) -> Outside | None:
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if len(values) < 3 or counts.sum() < BEFORE:
        return None
    for value, count, rest in ((values[0], counts[0], values[1:]), (values[-1], counts[-1], values[:-1])):
        width = rest[-1] - rest[0]
        gap = min(abs(value - rest[0]), abs(value - rest[-1]))
        wanted = 1 if float(value) in CODES else REPEATS
        away = AWAY if len(rest) >= LEVELS else FAR
        if width > 0 and wanted <= count <= MOST * counts.sum() and gap > away * width:
            return Outside(
                at,
                np.flatnonzero(column == value),
                f"is {value:.6g} in {count} of {len(column)} samples; all others lie from {rest[0]:.4g} to {rest[-1]:.4g}",
                float(gap / width),
            )
    return None


def _other_unit(at: int, column: Array) -> Outside | None:
    there = column[np.isfinite(column)]
    # Counted from the middle: what has an offset (a year, a temperature) is not far out for that.
    away = np.sort(np.abs(there - np.median(there)))[::-1] if len(there) else there
    away = away[away > 0]
    most = int(MOST * len(there))
    if len(away) < BEFORE + 1 or most < 1:
        return None
    beyond = np.arange(1, min(most, len(away) - BEFORE) + 1)
    ratio = away[beyond - 1] / away[beyond]
    wanted = np.maximum(LEAST_RATIO, CHANCE ** (-1 / beyond))
    good = np.flatnonzero(ratio > wanted)
    if len(good) == 0:
        return None
    count = int(beyond[good[-1]])
    rows = np.flatnonzero(np.abs(column - np.median(there)) >= away[count - 1])
    return Outside(
        at, rows, f"has {len(rows)} values of {len(column)} that are {ratio[good[-1]]:.3g} times as far from the middle as all others",
        float(ratio[good[-1]]),
    )  # fmt: skip


def _exhibits(view: View, part: Part, worst: Outside) -> tuple[Exhibit, ...]:
    name = named_column(view, worst.column)
    return tuple(
        shown(view, part, int(row), f"{name} is {part.rows[row, worst.column]:.6g}") for row in worst.rows[:8]
    )  # fmt: skip


def _put(part: Part, value: float, many: int = 8, *, times: bool = False) -> Part:
    x = part.x.copy()
    x[:many, 2] = x[:many, 2] * value + value if times else value
    return replace(part, x=x)


SICK = (
    lambda: specimen("table", train=lambda part: _put(part, -999.0)),
    lambda: specimen("table", train=lambda part: _put(part, 1000.0, times=True)),
    lambda: specimen("table", val=lambda part: _put(part, 99999.0, 2)),
)


def _heavy(part: Part) -> Part:
    return replace(part, x=np.random.default_rng(0).standard_cauchy(part.x.shape))


# As usual; the heaviest tails there are; one extreme sample.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", train=_heavy),
    lambda: specimen("table", train=lambda part: _put(part, 60.0, 1)),
)
