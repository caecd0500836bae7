"""Samples hold values that are no finite numbers.

Looks for:  NaN and infinities in inputs and in targets; of a table file infinities alone, for what is missing there is a choice.
Matters:    one such sample makes the loss NaN, and from then on every weight.
Try:        repair or drop the named samples, and check the transform that made them (a logarithm of 0, a division by 0).
Not this:   cells that are missing in a file: the profile counts them, and they are filled before training.
"""

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import named_column
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding


@audit()
def non_finite_values(view: View) -> Finding | None:
    """NaN or infinity."""
    if view.modality == "text" and view.task != "numbers":
        raise Skip("the data are text")
    found = [(part, bad) for part in view.parts.values() for bad in [_bad(view, part)] if bad.any()]
    if not found:
        return None
    rows = sum(int(bad.sum()) for _, bad in found)
    where = ", ".join(f"{int(bad.sum())} of {len(part)} in `{part.name}`" for part, bad in found)
    return wrong(
        f"{rows} sample{'s hold' if rows > 1 else ' holds'} NaN or infinity: {where}{_columns(view, found)}",
        fix="repair or drop these samples; where a transform made them, guard its logarithm or division",
        because={"samples": float(rows), "share": rows / sum(len(part) for part in view.parts.values())},
        exhibits=_exhibits(view, found),
        confidence=0.99,
        explains=("outlying-values", "covariate-shift", "constant-columns"),
    )


def _bad(view: View, part: Part) -> Array:
    bad = np.zeros(len(part), dtype=bool)
    if view.modality != "text":
        wrongs = np.isinf if view.notes.get("source") == "table" else _not_finite
        bad |= wrongs(part.rows).any(1)
    if part.y is not None and part.y.dtype.kind == "f":
        bad |= ~np.isfinite(part.y)
    return bad


def _not_finite(rows: Array) -> Array:
    return ~np.isfinite(rows)


def _columns(view: View, found: list[tuple[Part, Array]]) -> str:
    """In which columns, where few are concerned."""
    if view.modality != "table":
        return ""
    bad = [np.flatnonzero((~np.isfinite(part.rows[rows])).any(0)) for part, rows in found]
    names = [named_column(view, int(at)) for at in np.unique(np.concatenate(bad))]
    return f"; column{'s' if len(names) > 1 else ''} {', '.join(names[:5])}" if 0 < len(names) <= 20 else ""


def _exhibits(view: View, found: list[tuple[Part, Array]]) -> tuple[Exhibit, ...]:
    return tuple(
        shown(view, part, int(row), _says(view, part, int(row)))
        for part, bad in found
        for row in np.flatnonzero(bad)[:8]
    )  # fmt: skip


def _says(view: View, part: Part, row: int) -> str:
    count = 0 if view.modality == "text" else int((~np.isfinite(part.rows[row])).sum())
    return f"{count} of {part.rows.shape[1]} values not finite" if count else "its target is not finite"


def _one_nan(view: View) -> View:
    view.train.x[7].flat[3] = np.nan
    return view


def _infinite(part: Part) -> Part:
    part.x[0, 0] = np.inf
    return part


SICK = (
    lambda: _one_nan(specimen("images")),
    lambda: _one_nan(specimen("table")),
    lambda: specimen("series", val=_infinite),
)


# Finite; a file with an empty cell.
WELL = (
    lambda: specimen("images"),
    lambda: _one_nan(specimen("table", notes={"source": "table"})),
)
