"""What plain models say of the data, out of sample: three classifiers on the training split, and whether two samples are told apart.

No verdict on a model rests on these: they are yardsticks, the same for all data, that cost about a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View
from netdyno.audits._features import features, nearest, once

# Enough rows for shares that are known to a point or two, few enough to learn them in a second.
MOST_ROWS = 2000
FOLDS = 5
# Beyond ten deviations a value says "far" and no more; one wild value must not be all that a linear model sees.
FAR = 10.0
# Rows of each side that are told apart: the matrices below grow with their square.
MOST_A_SIDE = 400
PERMUTATIONS = 300
# Subjects with a few tens of records each fall into heaps of their own.
HEAPS = 16


@dataclass(frozen=True, eq=False)
class Answers:
    """Out-of-fold class probabilities of three plain models on rows of the training split.

    `rows` are places in the part, `given` the labels as numbers 0 … K-1 into `kinds`, `each` is (models, rows, K).
    """

    rows: Array
    given: Array
    kinds: Array
    each: Array

    @cached_property
    def together(self) -> Array:
        """The mean of the models, (rows, K)."""
        return self.each.mean(0)

    @cached_property
    def best(self) -> Array:
        """The probabilities of the model that is right most often."""
        return self.each[int(np.argmax((self.each.argmax(2) == self.given).mean(1)))]

    @property
    def guess(self) -> float:
        """The share of rows that the commonest class alone gets wrong."""
        return 1.0 - float(np.bincount(self.given).max() / len(self.given))


@once
def near_rows(view: View) -> dict[str, Array]:
    """The features of every split, with far values brought in."""
    return {name: np.clip(rows, -FAR, FAR) for name, rows in features(view).items()}


def labels(part: Part) -> Array:
    """The classes of a part as whole numbers. Raises Skip where there are none."""
    if part.y is None:
        raise Skip(f"the {part.name} split has no labels")
    return np.asarray(part.y).reshape(len(part)).astype(np.int64)


def asks_for_classes(view: View) -> None:
    """Raises Skip where the targets are not classes, one per sample."""
    if view.task != "classes" or any(part.y is None or np.ndim(part.y) > 1 for part in view.parts.values()):
        raise Skip("the targets are not classes")


def others(view: View) -> tuple[Part, ...]:
    """The splits beside the training split. Raises Skip where there is none, or an empty one."""
    if not view.others or min(len(part) for part in view.parts.values()) == 0:
        raise Skip("there is no second split to compare with")
    return view.others


def some(count: int, most: int, seed: int) -> Array:
    """At most so many places of `count`, in order, under a seed."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


@once
def answers(view: View) -> Answers:
    """What the plain models answer on training rows that they did not learn from. Raises Skip where a class is too small."""
    asks_for_classes(view)
    part, x = view.train, near_rows(view)["train"]
    rows = some(len(part), MOST_ROWS, view.seed)
    y = labels(part)[rows]
    kinds, given, counts = np.unique(y, return_inverse=True, return_counts=True)
    # A class of fewer rows than folds is missing in some of them.
    enough = counts[given] >= FOLDS
    rows, kinds = rows[enough], kinds[counts >= FOLDS]
    if len(kinds) < 2:
        raise Skip(f"fewer than two classes have {FOLDS} samples to learn from")
    given = np.searchsorted(kinds, labels(part)[rows])
    folds = _folds(given, None if part.groups is None else part.groups[rows], view.seed)
    each = np.stack([out_of_fold(model, x[rows], given, folds, len(kinds)) for model in classifiers()])
    return Answers(rows, given, kinds, each)


def classifiers() -> tuple[Any, ...]:
    """Three plain models that err in different ways: a line, neighbours, trees."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    return (
        LogisticRegression(C=0.3, max_iter=200, tol=1e-3),
        KNeighborsClassifier(10),
        ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0),
    )


def out_of_fold(model: Any, x: Array, given: Array, folds: list[tuple[Array, Array]], kinds: int) -> Array:
    """Probabilities (rows, kinds) from a model that did not see the row."""
    import warnings

    from sklearn.base import clone

    told = np.zeros((len(x), kinds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a yardstick that has not fully converged is still one
        for learn, judge in folds:
            fitted = clone(model).fit(x[learn], given[learn])
            told[judge[:, None], fitted.classes_[None, :]] = fitted.predict_proba(x[judge])
    return told


def _folds(given: Array, groups: Array | None, seed: int) -> list[tuple[Array, Array]]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and len(np.unique(groups)) >= 2 * FOLDS:
        cut = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed).split(given, given, groups)
    else:
        cut = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(given, given)
    return list(cut)


class Apart(NamedTuple):
    """How well a plain classifier tells two samples apart: `auc` out of fold, `p` by permutation, `deviations` from chance.

    `afar` is the AUC where whole heaps of similar rows are judged by what was learned from the others: what is told of rows of one
    subject, because others of the same subject were seen, is not told there.
    """

    auc: float
    p: float
    deviations: float
    afar: float


def told_apart(one: Array, other: Array, *, chance: np.random.Generator, groups: Array | None = None) -> Apart:
    """A two-sample test: kernel ridge out of fold, against what it does with the sides dealt out by chance (ledger A-207).

    With `groups` (of the rows of both, one after the other) whole groups are dealt out, and no group is learned from and
    judged on: rows of one group resemble each other whatever the split. For ridge the answers are linear in the labels, so
    that all permutations together cost one fit per fold.
    """
    x = np.vstack((one, other))
    side = np.repeat((0.0, 1.0), (len(one), len(other)))
    units = np.arange(len(x)) if groups is None else np.unique(groups, return_inverse=True)[1]
    dealt = np.stack([side, *_dealt(side, units, chance)], 1)
    kernel = _kernel(x)
    told = _linear_answers(kernel, chance.integers(0, FOLDS, units.max() + 1)[units]) @ dealt
    found = np.array([_auc(told[:, at], dealt[:, at]) for at in range(dealt.shape[1])])
    real, null = found[0], found[1:]
    return Apart(
        auc=float(real),
        p=float((1 + (null >= real).sum()) / (1 + len(null))),
        deviations=float((real - null.mean()) / max(null.std(), 1e-9)),
        afar=_auc(_linear_answers(kernel, _heaps(x)) @ side, side),
    )


def _heaps(x: Array) -> Array:
    """Similar rows together: which of HEAPS each row belongs to."""
    from sklearn.cluster import KMeans

    x = _standard(x)
    different = len(np.unique(np.round(x, 6), axis=0))
    return KMeans(min(HEAPS, different), n_init=1, random_state=0).fit_predict(x)


def _dealt(side: Array, units: Array, chance: np.random.Generator) -> Iterator[Array]:
    first = np.unique(units, return_index=True)[1]
    by_unit = side[first]
    whole = bool((by_unit[units] == side).all())
    for _ in range(PERMUTATIONS):
        # Groups that are on both sides were not dealt out as wholes.
        yield chance.permutation(by_unit)[units] if whole else chance.permutation(side)


def _linear_answers(kernel: Array, fold: Array) -> Array:
    """The matrix that makes answers of labels, for each row from those of other folds."""
    told = np.zeros_like(kernel)
    for number in np.unique(fold):
        judge, learn = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if not len(learn):
            continue
        # The ridge is a hundredth of the kernel's own size times the rows: weak enough to bend, strong enough not to learn by heart.
        inner = kernel[np.ix_(learn, learn)] + 0.01 * len(learn) * np.eye(len(learn))
        weights = np.linalg.solve(inner, kernel[np.ix_(learn, judge)]).T
        centre = np.eye(len(learn)) - 1.0 / len(learn)
        told[np.ix_(judge, learn)] = weights @ centre
    return told


def _kernel(x: Array) -> Array:
    """RBF and linear, in equal parts."""
    x = _standard(x)
    inner = x @ x.T
    size = np.diag(inner)
    far = np.maximum(size[:, None] + size[None, :] - 2 * inner, 0.0)
    middle = np.median(far[np.triu_indices(len(x), 1)]) or 1.0
    return 0.5 * np.exp(-far / middle) + 0.5 * inner / max(size.mean(), 1e-9)


def _standard(x: Array) -> Array:
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread > 0, spread, 1.0)


def _auc(told: Array, side: Array) -> float:
    from scipy.stats import rankdata

    ranks, ones = rankdata(told), side > 0.5
    count = int(ones.sum())
    return float((ranks[ones].sum() - count * (count + 1) / 2) / max(1, count * (len(side) - count)))


def alike_in_classes(view: View, part: Part, chance: np.random.Generator) -> tuple[Array, Array]:
    """Rows of training and of the other split with the same shares of classes: other labels bring other inputs."""
    if view.task == "none" or view.train.y is None or part.y is None or np.ndim(view.train.y) > 1:
        return some(len(view.train), MOST_A_SIDE, view.seed), some(len(part), MOST_A_SIDE, view.seed)
    mine, theirs = _kinds(view, view.train.y), _kinds(view, part.y)
    kept: list[tuple[Array, Array]] = []
    share = min(1.0, MOST_A_SIDE / min(len(mine), len(theirs)))
    for kind in np.intersect1d(mine, theirs):
        here, there = np.flatnonzero(mine == kind), np.flatnonzero(theirs == kind)
        count = min(len(here), len(there))
        count = min(count, max(1, round(count * share)))
        kept.append((chance.choice(here, count, replace=False), chance.choice(there, count, replace=False)))
    if not kept:
        return np.empty(0, int), np.empty(0, int)
    return np.concatenate([one for one, _ in kept])[:MOST_A_SIDE], np.concatenate([two for _, two in kept])[
        :MOST_A_SIDE
    ]


def _kinds(view: View, y: Array) -> Array:
    """Classes; of numbers the fifth of training's range of ranks they lie in."""
    y = np.asarray(y).reshape(-1)
    if view.task == "classes":
        return y.astype(np.int64)
    assert view.train.y is not None
    return np.digitize(y, np.quantile(np.asarray(view.train.y, dtype=np.float64), (0.2, 0.4, 0.6, 0.8)))


class Siblings(NamedTuple):
    """Rows that have others far nearer than the rest: the `share` of such rows, and the one `expected` of unrelated rows.

    `rows` are the rows that were looked at, `counts` how many siblings each has, `places` its neighbours, the nearest first.
    """

    share: float
    expected: float
    rows: Array
    counts: Array
    places: Array


# A neighbour that is so many times nearer than the next is of another kind than the next.
GAP = 1.8
NEAR, BEYOND = 8, 16  # siblings that are counted at most; neighbours from which the number of directions is taken


def siblings(of: Array, to: Array, *, same: bool) -> Siblings | None:
    """Whether rows come in tight groups. `same` where both are one sample. None where there are too few rows to tell.

    Among unrelated rows that fill m directions evenly, the (j+1)-th neighbour is GAP times as far as the j-th with probability
    GAP^(-mj); m is estimated from the farther neighbours (Levina and Bickel 2004), where siblings no longer are.
    """
    if len(to) < 3 * BEYOND or len(of) < 30:
        return None
    distances, places = nearest(of, to, BEYOND + same)
    distances, places = distances[:, same:], places[:, same:]
    # Rows that are equal are duplicates or a coarse grid, which is another matter.
    clear = distances[:, 0] > 1e-9
    if clear.mean() < 0.8:
        return None
    distances, places = distances[clear], places[clear]
    ratios = distances[:, 1 : NEAR + 1] / distances[:, :NEAR]
    far = distances[:, NEAR:]
    # Of m directions the logarithm of d(k) / d(j) is 1/m times the sum of 1/i from j to k-1, in the mean.
    steps = np.cumsum(1.0 / np.arange(BEYOND - 1, NEAR, -1.0)).mean()
    directions = steps / max(float(np.mean(np.log(far[:, -1:] / far[:, :-1]))), 1e-6)
    expected = min(1.0, sum(GAP ** (-directions * j) for j in range(1, NEAR + 1)))
    gaps = ratios >= GAP
    # The last gap: within a group there may be gaps as well.
    counts = np.where(gaps.any(1), NEAR - gaps[:, ::-1].argmax(1), 0)
    return Siblings(float((counts > 0).mean()), expected, np.flatnonzero(clear), counts, places)


def in_groups(found: Siblings | None) -> bool:
    """Whether most rows have siblings, and far more than unrelated rows have."""
    # Half the rows is what no plain collection shows; three times chance keeps data of few directions out.
    return found is not None and found.share > 0.5 and found.share > 3 * found.expected
