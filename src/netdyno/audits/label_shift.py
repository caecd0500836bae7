"""Classes have other shares in another split than in training.

Looks for:  shares of classes that differ far beyond chance (chi-square, or whole groups dealt out where they are known); for numbers
            another spread of the target (Kolmogorov-Smirnov).
Matters:    the model expects classes as often as training showed them; the score is that of another mix.
Try:        split by class (stratified), or weigh classes by the shares that are expected in use.
Not this:   a class that is missing, differences of a few points, small samples; a split that was balanced on purpose is a suspicion.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, View, audit, wrong
from netdyno.audits._features import class_name
from netdyno.audits._learners import alike_in_classes, labels, near_rows, others, told_apart
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A tenth of the rows would have to change class for the shares to be equal.
MOVED = 0.1
# Of numbers: a fifth of the values would have to move.
MOVED_NUMBERS = 0.2
# One false alarm in ten thousand data sets.
LEVEL = 1e-4
# Below 20 rows a tenth is two rows.
ENOUGH = 20
DEALS = 2000
# The AUC of two random samples stays below this; that of other subjects is 0.75 and more.
ALIKE = 0.7


@audit(stage="data")
def label_shift(view: View) -> Finding | None:
    found = [(far, part) for part in others(view) if (far := _distance(view, part)) is not None]
    if view.task == "none" or not found:
        return None
    far, part = max(found, key=lambda one: one[0])
    return _of_classes(view, part, far) if view.task == "classes" else _of_numbers(view, part, far)


def _distance(view: View, part: Part) -> float | None:
    """How far the targets of a part are from training's, None where chance explains it or it is little."""
    if view.train.y is None or part.y is None or np.ndim(part.y) > 1 or min(len(view.train), len(part)) < ENOUGH:
        return None
    if view.task == "numbers":
        return _moved(np.asarray(view.train.y, dtype=np.float64), np.asarray(part.y, dtype=np.float64))
    table = _table(view, part)
    far = _apart(table)
    return far if far >= MOVED and _by_chance(view, part, table) < LEVEL else None


def _table(view: View, part: Part) -> Array:
    """Counts of the classes that both splits have, (2, K): what one lacks is another matter."""
    mine, theirs = labels(view.train), labels(part)
    kinds = np.intersect1d(mine, theirs)
    return np.array([[(y == kind).sum() for kind in kinds] for y in (mine, theirs)])


def _apart(table: Array) -> float:
    """The share of rows that would have to change class."""
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _by_chance(view: View, part: Part, table: Array) -> float:
    from scipy.stats import chi2_contingency

    if table.shape[1] < 2:
        return 1.0
    p = float(chi2_contingency(table, correction=False).pvalue)
    grouped = view.train.groups is not None and part.groups is not None
    # Rows of a group share their class: they count as one draw.
    return max(p, _by_groups(view, part)) if grouped and p < LEVEL else p


def _by_groups(view: View, part: Part) -> float:
    """How often whole groups, dealt out by chance, differ as much; never below 1 / DEALS, so that few groups say nothing."""
    assert view.train.groups is not None
    assert part.groups is not None
    y = np.concatenate((labels(view.train), labels(part)))
    units = np.unique(np.concatenate((view.train.groups, part.groups)), return_inverse=True)[1]
    side = np.repeat((0, 1), (len(view.train), len(part)))
    by_unit = side[np.unique(units, return_index=True)[1]]
    counts = np.zeros((units.max() + 1, y.max() + 1))
    np.add.at(counts, (units, y), 1)
    real = _apart(np.stack((counts[by_unit == 0].sum(0), counts[by_unit == 1].sum(0))))
    chance = np.random.default_rng(view.seed)
    as_far = 0
    for _ in range(DEALS):
        dealt = chance.permutation(by_unit)
        as_far += _apart(np.stack((counts[dealt == 0].sum(0), counts[dealt == 1].sum(0)))) >= real
    # None in 2000, and the permutations say no more than that: taken as beyond chance.
    return 0.0 if as_far == 0 else as_far / DEALS


def _moved(mine: Array, theirs: Array) -> float | None:
    from scipy.stats import ks_2samp

    tested = ks_2samp(mine[np.isfinite(mine)], theirs[np.isfinite(theirs)], method="asymp")
    return float(tested.statistic) if tested.statistic >= MOVED_NUMBERS and tested.pvalue < LEVEL else None


def _of_classes(view: View, part: Part, far: float) -> Finding:
    mine, theirs = labels(view.train), labels(part)
    shares = {kind: ((mine == kind).mean(), (theirs == kind).mean()) for kind in np.intersect1d(mine, theirs)}
    kind = max(shares, key=lambda one: abs(shares[one][1] - shares[one][0]))
    here, there = shares[kind]
    counts = np.bincount(theirs)
    counts = counts[counts > 0]
    # Exactly equal counts are no accident: someone balanced this split, and a score of balanced classes may be what is wanted.
    balanced = len(counts) > 1 and counts.max() - counts.min() <= 1
    return wrong(
        f"class {class_name(view, kind)} is {here:.0%} of training and {there:.0%} of {part.name}; {far:.0%} of the rows would have to "
        "change class for equal shares",
        fix="split with equal shares of classes (stratify), or weigh classes by the shares expected in use",
        because={"distance": far, "share_in_training": float(here), f"share_in_{part.name}": float(there)},
        confidence=0.5 if balanced or _others_come(view, part) else 0.85,
        layer="generalisation",
        explains=("covariate-shift",),
    )


def _others_come(view: View, part: Part) -> bool:
    """Whether rows of one class are told apart as well: then other subjects came, each with its class, and few of them are chance."""
    if view.train.groups is not None:
        return False
    chance = np.random.default_rng(view.seed)
    mine, theirs = alike_in_classes(view, part, chance)
    x = near_rows(view)
    if min(len(mine), len(theirs)) < ENOUGH:
        return False
    return told_apart(x["train"][mine], x[part.name][theirs], chance=chance).auc > ALIKE


def _of_numbers(view: View, part: Part, far: float) -> Finding:
    mine, theirs = float(np.nanmedian(view.train.y)), float(np.nanmedian(part.y))  # type: ignore[arg-type]
    return wrong(
        f"the targets of {part.name} are spread otherwise: their median is {theirs:.4g}, training's {mine:.4g}; {far:.0%} of the values "
        "would have to move",
        fix="split at random, or in strata of the target, if both should be alike",
        because={"distance": far, "median_in_training": mine, f"median_in_{part.name}": theirs},
        confidence=0.85,
        layer="generalisation",
        explains=("covariate-shift",),
    )


def _mostly_first(part: Part) -> Part:
    assert part.y is not None
    keep = np.sort(np.concatenate((np.flatnonzero(part.y == 0), np.flatnonzero(part.y != 0)[::4])))
    return replace(part, x=np.asarray(part.x)[keep], y=part.y[keep], indices=part.indices[keep])


def _larger(part: Part) -> Part:
    assert part.y is not None
    return replace(part, y=part.y + part.y.std())


SICK = (
    lambda: specimen("table", sizes=(300, 240), val=_mostly_first),
    lambda: specimen("images", sizes=(300, 240), classes=2, val=_mostly_first),
    lambda: specimen("table", task="numbers", val=_larger),
)


WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", task="numbers"),
    lambda: specimen("text", seed=4),
)
