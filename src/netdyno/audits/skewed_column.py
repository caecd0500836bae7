"""A remark: an amount spans orders of magnitude, and a logarithm would suit it.

Looks for:  positive columns whose largest values are far from the middle and whose logarithm is much more even.
Matters:    after standardising, most samples lie within a hair of each other, and few large ones lead the gradient.
Try:        the logarithm (`log1p` where there are zeros), computed before standardising.
Not this:   codes and other units (see `outlying-values`); trees, to which the order alone matters.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, View, audit, wrong
from netdyno.audits._features import named_column
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# An exponential distribution has a skew of 2, a lognormal with deviation 1 one of 6; from there on a standardised column is mostly
# one value. The logarithm must take most of it away, or it is no remedy.
SKEW, LEFT = 6.0, 0.25
SPAN = 30.0  # times the middle
LEAST = 100


@audit(modalities=("table",), stage="note")
def skewed_column(view: View) -> Finding | None:
    """Columns that ask for a logarithm."""
    if len(view.train) < LEAST:
        return None
    levels = view.notes.get("categories", {})
    found = {
        named_column(view, at): _skew(column)
        for at, column in enumerate(view.train.rows.T)
        if (at >= len(view.columns) or view.columns[at] not in levels) and _asks(column)
    }
    if not found:
        return None
    worst = max(found, key=lambda name: found[name])
    return wrong(
        f"{worst} has a skew of {found[worst]:.1f}: its largest values are far from its middle"
        + (f"; so have {', '.join(name for name in found if name != worst)}" if 1 < len(found) <= 6 else ""),
        fix="take its logarithm before standardising, if a network is to learn from it",
        because={"skew": found[worst], "columns": float(len(found))},
    )


def _asks(column: Array) -> bool:
    there = column[np.isfinite(column)]
    if len(there) < LEAST or there.min() < 0 or there.max() <= SPAN * np.median(there) or np.median(there) <= 0:
        return False
    skew = _skew(there)
    return skew > SKEW and abs(_skew(np.log1p(there / np.median(there)))) < max(2.0, LEFT * skew)


def _skew(column: Array) -> float:
    there = column[np.isfinite(column)]
    deviation = there.std()
    return float((((there - there.mean()) / deviation) ** 3).mean()) if deviation > 0 else 0.0


def _tailed(part: Part) -> Part:
    x = part.x.astype(np.float64)
    x[:, 3] = np.exp(2 * np.random.default_rng(0).normal(size=len(part)))
    return replace(part, x=x)


SICK = (lambda: specimen("table", train=_tailed, val=_tailed),)
WELL = (lambda: specimen("table"),)
