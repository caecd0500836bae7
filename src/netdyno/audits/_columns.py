"""What each column tells of the target by itself: the audits of leaks and of shortcuts ask this."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View
from netdyno.audits._features import filled, once
from netdyno.audits._learners import FOLDS, MOST_ROWS, labels, some

# Finer bins hold too few rows of a small set to say what is common in them.
BINS = 48
CONFIRMED = 8  # columns that are looked at closely: who gives the target away is among the best few
ENOUGH = 60
# One of 15 is seven points.
FEW = 15


class Alone(NamedTuple):
    """One column by itself: the share of the target it explains out of sample (0 is what a constant does, 1 is all).

    `explains` in training, `elsewhere` in each other split, learned from training; `right` says which training rows it answers
    (numbers: its squared errors). `steps` are its distinct values, `tight` that each class has its own narrow range of it.
    """

    number: int
    explains: float
    elsewhere: dict[str, float]
    right: Array
    steps: int
    tight: bool


class Columns(NamedTuple):
    """The best columns, looked at closely, best first; `rough` is what every column explains at a first look."""

    rows: Array
    best: tuple[Alone, ...]
    rough: Array


@once
def columns(view: View) -> Columns:
    """What columns explain by themselves. Raises Skip where there are no columns or no targets."""
    if view.modality == "text":
        raise Skip("texts have no columns")
    if view.task == "none" or view.train.y is None or np.ndim(view.train.y) > 1:
        raise Skip("there is no target, one per sample")
    if len(view.train) < ENOUGH:
        raise Skip(f"fewer than {ENOUGH} training samples")
    x = filled(view)["train"]
    rows = some(len(x), MOST_ROWS, view.seed)
    x, y = x[rows], target(view, view.train)[rows]
    rough = np.array([_rough(x[:, at], y, view.task == "classes") for at in range(x.shape[1])])
    closely = np.argsort(-rough)[:CONFIRMED]
    found = [_alone(view, int(at), x[:, at], y) for at in closely if np.isfinite(rough[at])]
    return Columns(rows, tuple(sorted(found, key=lambda one: -one.explains)), rough)


def target(view: View, part: Part) -> Array:
    """Whole numbers for classes, floating-point ones otherwise."""
    return labels(part) if view.task == "classes" else np.asarray(part.y, dtype=np.float64).reshape(len(part))


def within(view: View, part: Part, number: int) -> float:
    """The share of a part's targets that one column explains, out of sample, learned from that part itself."""
    values, y, classes = filled(view)[part.name][:, number], target(view, part), view.task == "classes"
    return explained(_out_of_fold(values, y, classes), y, classes, constant(y, classes))


def explained(told: Array, y: Array, classes: bool, guess: Any) -> float:
    """The share of what a constant gets wrong that the answers get right."""
    lost = float((told != y).mean() if classes else ((told - y) ** 2).mean())
    base = float((y != guess).mean() if classes else ((y - guess) ** 2).mean())
    return 1.0 - lost / base if base > 0 else 0.0


def constant(y: Array, classes: bool) -> Any:
    """The commonest class, or the mean."""
    if not classes:
        return float(y.mean())
    kinds, counts = np.unique(y, return_counts=True)
    return kinds[counts.argmax()]


def _rough(values: Array, y: Array, classes: bool) -> float:
    """What bins of equal counts explain, learned from every other row and judged on the rest. Constant columns: minus infinity."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    places = np.searchsorted(edges, values, side="right")
    if len(values) == 0 or places.min() == places.max():
        return -np.inf
    # Rows may alternate; a fixed shuffle does not.
    half = np.random.default_rng(0).random(len(y)) < 0.5
    told = _by_bins(places[half], y[half], len(edges) + 1, classes)[places[~half]]
    return explained(told, y[~half], classes, constant(y[half], classes))


def _by_bins(places: Array, y: Array, bins: int, classes: bool) -> Array:
    whole = constant(y, classes)
    if classes:
        kinds, given = np.unique(y, return_inverse=True)
        counts = np.zeros((bins, len(kinds)))
        np.add.at(counts, (places, given), 1)
        return np.where(counts.sum(1) > 0, kinds[counts.argmax(1)], whole)
    sums, filled_by = np.bincount(places, y, bins), np.bincount(places, minlength=bins)
    return np.where(filled_by > 0, sums / np.maximum(filled_by, 1), whole)


def _alone(view: View, number: int, values: Array, y: Array) -> Alone:
    classes = view.task == "classes"
    told = _out_of_fold(values, y, classes)
    fit = _fitted(values, y, classes)
    elsewhere = {
        part.name: explained(fit(filled(view)[part.name][:, number]), target(view, part), classes, constant(y, classes))
        for part in view.others
        if part.y is not None and _enough(target(view, part), classes)
    }
    return Alone(
        number=number,
        explains=explained(told, y, classes, constant(y, classes)),
        elsewhere=elsewhere,
        right=(told == y) if classes else (told - y) ** 2,
        steps=len(np.unique(values)),
        tight=classes and _tight(values, y),
    )


def _enough(y: Array, classes: bool) -> bool:
    """Whether a share of what a constant gets wrong means something: of a rare class there must be some."""
    return len(y) >= FEW and (not classes or int((y != constant(y, classes)).sum()) >= FEW)


def _out_of_fold(values: Array, y: Array, classes: bool) -> Array:
    fold = np.random.default_rng(1).integers(0, FOLDS, len(y))
    told = np.zeros(len(y), dtype=y.dtype)
    for number in range(FOLDS):
        judge = fold == number
        if judge.any():
            told[judge] = _fitted(values[~judge], y[~judge], classes)(values[judge])
    return told


def _fitted(values: Array, y: Array, classes: bool) -> Callable[[Array], Array]:
    """A small tree of one column; for numbers on top of a straight line, which a tree climbs in steps only."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if classes:
        tree = DecisionTreeClassifier(max_leaf_nodes=max(8, 4 * len(np.unique(y))), min_samples_leaf=2, random_state=0)
        tree.fit(values[:, None], y)
        return lambda other: tree.predict(other[:, None])
    middle, spread = float(values.mean()), float(values.std()) or 1.0
    slope, level = np.polyfit((values - middle) / spread, y, 1)
    rest = DecisionTreeRegressor(max_leaf_nodes=24, min_samples_leaf=5, random_state=0)
    rest.fit(values[:, None], y - (slope * (values - middle) / spread + level))
    return lambda other: slope * (other - middle) / spread + level + rest.predict(other[:, None])


def _tight(values: Array, y: Array) -> bool:
    """Whether each class has its own range of values, and the ranges are narrower than what lies between them."""
    kinds = np.unique(y)
    ranges = sorted((values[y == kind].min(), values[y == kind].max()) for kind in kinds)
    between = min(after[0] - before[1] for before, after in pairwise(ranges))
    return bool(between > max(high - low for low, high in ranges))
