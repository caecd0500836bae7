"""Columns stand in another order in another split.

Looks for:  columns whose values in another split are those that another column has in training, and the other way round, so that
            changing them back removes the difference; for columns of one scale the same by their correlations.
Matters:    the model reads one quantity as another; the score falls and nothing says why.
Try:        choose columns by name, in one place, for all splits and in use.
Not this:   columns that drift by themselves (`covariate-shift`), columns that nothing distinguishes.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._columns import target
from netdyno.audits._features import filled, named_column
from netdyno.audits._learners import others, some
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A column has drifted when a fifth of its values would have to move, and chance does not do it in a million columns.
MOVED, LEVEL = 0.2, 1e-6
# Put back, at most a third of the distance may be left, and no more than chance explains.
LEFT, CHANCE = 0.35, 1e-3
# Squared deviations per correlation: chance makes 1 of them, and up to 2.5 where values have long tails.
BEFORE, AFTER = 5.0, 2.5
ENOUGH, MOST_COLUMNS = 40, 200


@audit(modalities=("table", "tensors"), stage="data")
def swapped_columns(view: View) -> Finding | None:
    for part in others(view):
        one, other = filled(view)["train"], filled(view)[part.name]
        if min(len(one), len(other)) < ENOUGH or not 2 <= one.shape[1] <= MOST_COLUMNS:
            raise Skip(f"needs {ENOUGH} rows in each split and 2 to {MOST_COLUMNS} columns")
        one, other = one[some(len(one), 2000, view.seed)], other[some(len(other), 2000, view.seed)]
        moved = _by_values(one, other) or _by_company(view, part)
        if moved:
            return _told(view, part, moved)
    return None


def _by_values(one: Array, other: Array) -> dict[int, int]:
    """Which training column each drifted column of the other split looks like: an assignment that removes the drift, or nothing."""
    from scipy.optimize import linear_sum_assignment

    drifted = [at for at in range(one.shape[1]) if _drifted(one[:, at], other[:, at])]
    if not 2 <= len(drifted) <= 40:
        return {}
    far = np.array([[_far(one[:, mine], other[:, theirs])[0] for mine in drifted] for theirs in drifted])
    theirs, mine = linear_sum_assignment(far)
    back = {drifted[a]: drifted[b] for a, b in zip(theirs, mine, strict=True) if a != b}
    # All that drifted must be explained: a split that is different altogether has look-alikes too.
    if len(back) < len(drifted):
        return {}
    mended = all(_mended(one, other, theirs, mine) for theirs, mine in back.items())
    return back if mended else {}


def _drifted(one: Array, other: Array) -> bool:
    far, p = _far(one, other)
    return far >= MOVED and p < LEVEL


def _mended(one: Array, other: Array, theirs: int, mine: int) -> bool:
    before, _ = _far(one[:, theirs], other[:, theirs])
    after, p = _far(one[:, mine], other[:, theirs])
    return after <= LEFT * before and p > CHANCE


def _far(one: Array, other: Array) -> tuple[float, float]:
    from scipy.stats import ks_2samp

    tested = ks_2samp(one, other, method="asymp")
    return float(tested.statistic), float(tested.pvalue)


def _by_company(view: View, part: Part) -> dict[int, int]:
    """Two columns of one scale that stand in each other's place: their correlations with all others and the target say so."""
    mine, n = _correlations(view, view.train)
    theirs, m = _correlations(view, part)
    count = len(filled(view)["train"][0])
    scale = 1.0 / (1.0 / max(n - 3, 1) + 1.0 / max(m - 3, 1))
    far = scale * (mine - theirs) ** 2
    suspects = np.argsort(-far[:count].mean(1))[:6]
    for a in suspects:
        for b in suspects:
            if a < b and _fits_swapped(mine, theirs, scale, int(a), int(b)):
                return {int(a): int(b), int(b): int(a)}
    return {}


def _correlations(view: View, part: Part) -> tuple[Array, int]:
    """Of ranks, with the target as a last row, by Fisher's transform: differences have one spread, and one wild value moves none."""
    from scipy.stats import rankdata

    rows = filled(view)[part.name]
    if view.task != "none" and part.y is not None and np.ndim(part.y) == 1:
        rows = np.column_stack((rows, *_targets(view, part)))
    ranks = rankdata(rows, axis=0)
    centred = ranks - ranks.mean(0)
    size = np.sqrt((centred**2).sum(0))
    alike = centred.T @ centred / np.maximum(np.outer(size, size), 1e-9)
    np.fill_diagonal(alike, 0.0)
    return np.arctanh(np.clip(alike, -0.99, 0.99)), len(rows)


def _targets(view: View, part: Part) -> list[Array]:
    """The target as columns: numbers as they are, each class of the first ten as yes or no."""
    y = target(view, part)
    if view.task != "classes":
        return [y]
    return [(y == kind).astype(float) for kind in np.unique(target(view, view.train))[:10]]


def _fits_swapped(mine: Array, theirs: Array, scale: float, a: int, b: int) -> bool:
    order = np.arange(len(mine))
    order[[a, b]] = b, a
    swapped = theirs[np.ix_(order, order)]
    both, rest = np.array((a, b)), np.setdiff1d(np.arange(len(mine)), (a, b))
    if len(rest) < 2:
        return False
    before = scale * ((mine - theirs)[np.ix_(both, rest)] ** 2).mean()
    after = scale * ((mine - swapped)[np.ix_(both, rest)] ** 2).mean()
    elsewhere = scale * ((mine - theirs)[np.ix_(rest, rest)] ** 2).mean()
    return bool(before > BEFORE and after < AFTER and elsewhere < AFTER)


def _told(view: View, part: Part, moved: dict[int, int]) -> Finding:
    names = ", ".join(
        f"{named_column(view, at)} holds what training calls {named_column(view, looks)}"
        for at, looks in list(moved.items())[:4]
    )
    return wrong(
        f"columns of {part.name} stand in another order: {names}",
        fix="choose columns by name for every split: `frame[columns]` with one list",
        because={"columns": float(len(moved))},
        confidence=0.9,
        explains=("covariate-shift", "shortcut-feature"),
    )


def _swapped(part: Part, a: int = 5, b: int = 6) -> Part:
    x = np.array(part.x)
    x[:, [a, b]] = x[:, [b, a]]
    return replace(part, x=x)


def _of_one_scale(part: Part) -> Part:
    """Two columns with the same values, of which only the first has to do with the class."""
    assert part.y is not None
    x = np.array(part.x)
    chance = np.random.default_rng(len(part))
    x[:, 0] = np.sort(chance.normal(size=len(part)))[np.argsort(np.argsort(part.y + chance.normal(0, 0.3, len(part))))]
    x[:, 1] = chance.permutation(x[:, 0])
    return replace(part, x=x)


SICK = (
    lambda: specimen("table", val=_swapped),
    lambda: specimen("table", train=_of_one_scale, val=lambda part: _swapped(_of_one_scale(part), 0, 1)),
)
WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", train=_of_one_scale, val=_of_one_scale),
    lambda: specimen("table", val=lambda part: replace(part, x=3 * np.asarray(part.x) + 1)),
)
