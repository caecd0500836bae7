"""One column gives the answer away.

Looks for:  a column that by itself explains nearly all of the target in every split, where all the others together explain clearly
            less; and a column in which each of three or more classes has a narrow range of its own.
Matters:    the score is that of this column; where it is not known beforehand the model knows nothing.
Try:        drop the column, and everything that is computed from the target or later than it.
Not this:   a strong column among others that tell as much; one that is good in training only (`shortcut-feature`); row numbers. A
            target that is by nature a function of one column looks the same: then it needs no model.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from netdyno.audits._base import Array, Part, View, audit, wrong
from netdyno.audits._columns import Alone, Columns, columns, constant, explained, target
from netdyno.audits._features import filled, named_column
from netdyno.audits._learners import FOLDS, near_rows
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# The best single columns of real sets explain 0.94 (a petal's width); what explains all of it was made of it.
NEARLY_ALL = 0.97
ELSEWHERE = 0.90
# The others leave so many times more unexplained, and at least two points.
TIMES, POINTS = 4.0, 0.02
# Seven rows that only this column answers, and none that only the others do; five where it has a narrow range for each class.
LEVEL, OF_TIGHT = 0.01, 0.05
# Two columns that rank rows so much alike are one column.
TWIN = 0.995


@audit(stage="data")
def leaked_target(view: View) -> Finding | None:
    found = columns(view)
    for one in found.best:
        if one.explains < NEARLY_ALL or min(one.elsewhere.values(), default=1.0) < ELSEWHERE:
            continue
        if _row_number(view, one):
            continue
        rest = _rest(view, found, one)
        if _copies(view, one) or _beats(view, one, rest):
            return _told(view, one, rest)
    return None


def _row_number(view: View, one: Alone) -> bool:
    """A column that counts the rows: it tells the target where rows are sorted, and that is another matter."""
    values = filled(view)["train"][:, one.number]
    ordered = values[np.argsort(view.train.indices, kind="stable")]
    steps = np.diff(ordered)
    return len(np.unique(ordered)) == len(ordered) and bool((steps > 0).all() or (steps < 0).all())


def _copies(view: View, one: Alone) -> bool:
    """Three or more classes in ranges of their own, narrower than the space between: no measured quantity does that by itself."""
    return one.tight and len(np.unique(target(view, view.train))) >= 3


def _rest(view: View, found: Columns, one: Alone) -> tuple[float, Array]:
    """What a forest of all other columns explains out of fold, and which rows it answers (numbers: its squared errors)."""
    from sklearn.model_selection import cross_val_predict

    x, y = filled(view)["train"][found.rows], target(view, view.train)[found.rows]
    others = np.setdiff1d(np.arange(x.shape[1]), _twins(x, one, found))
    classes = view.task == "classes"
    if not len(others):
        return 0.0, (y == constant(y, classes)) if classes else (y - y.mean()) ** 2
    learned = x[:, others] if x.shape[1] <= 64 or classes else near_rows(view)["train"][found.rows]
    told = np.stack([cross_val_predict(model, learned, y, cv=_cut(y, classes)) for model in _models(classes)])
    shares = [explained(one_told, y, classes, constant(y, classes)) for one_told in told]
    best = told[int(np.argmax(shares))]
    return max(shares), (best == y) if classes else (best - y) ** 2


def _models(classes: bool) -> tuple[Any, ...]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if classes:
        line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100, tol=1e-2))
        return line, ExtraTreesClassifier(60, random_state=0)
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 7))), ExtraTreesRegressor(60, random_state=0)


def _cut(y: Array, classes: bool) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    _, counts = np.unique(y, return_counts=True)
    if classes and counts.min() >= FOLDS:
        return StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return KFold(FOLDS, shuffle=True, random_state=0)


def _twins(x: Array, one: Alone, found: Columns) -> list[int]:
    """The column and those that rank the rows as it does: a target that was leaked twice is no help of the others."""
    from scipy.stats import spearmanr

    mine = x[:, one.number]
    near = [other.number for other in found.best if other.number != one.number and np.ptp(x[:, other.number]) > 0]
    return [one.number] + [at for at in near if abs(spearmanr(mine, x[:, at]).statistic) > TWIN]


def _beats(view: View, one: Alone, rest: tuple[float, Array]) -> bool:
    """Whether all others together leave far more unexplained, beyond chance."""
    from scipy.stats import binomtest, wilcoxon

    share, right = rest
    if 1 - share < max(TIMES * (1 - one.explains), POINTS):
        return False
    if view.task == "classes":
        only_here, only_there = int((one.right & ~right).sum()), int((~one.right & right).sum())
        return binomtest(only_here, only_here + only_there, alternative="greater").pvalue < (
            OF_TIGHT if one.tight else LEVEL
        )
    return bool(wilcoxon(right - one.right, alternative="greater").pvalue < LEVEL)


def _told(view: View, one: Alone, rest: tuple[float, Array]) -> Finding:
    name = named_column(view, one.number)
    everywhere = {f"in_{split}": share for split, share in one.elsewhere.items()}
    one_each = view.task == "classes" and one.steps == len(np.unique(target(view, view.train)))
    says = f"{name} has one value for each class and " if one_each else f"{name} alone "
    return wrong(
        f"{says}explains {one.explains:.1%} of the target out of sample; all other columns together explain {max(rest[0], 0.0):.0%}",
        fix=f"drop {name} unless it is known before the target is",
        because={"alone": one.explains, "others": rest[0], **everywhere},
        # Without a second split it may as well be a mark that only training has.
        confidence=0.9 if one.elsewhere else 0.6,
        layer="generalisation",
    )


def _leaking(part: Part, noise: float = 0.0) -> Part:
    assert part.y is not None
    chance = np.random.default_rng(len(part))
    x = np.array(part.x)
    x[:, 5] = 3.0 * part.y + noise * chance.normal(size=len(part))
    return replace(part, x=x)


def _noisily(part: Part) -> Part:
    return _leaking(part, noise=0.3)


SICK = (
    lambda: specimen("table", train=_leaking, val=_leaking),
    lambda: specimen("table", classes=2, train=_noisily, val=_noisily),
    lambda: specimen("table", task="numbers", train=_noisily, val=_noisily),
)
# Nothing leaks; in training only; a strong column among strong ones.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", train=_leaking),
    lambda: specimen("images"),
    lambda: specimen("table", task="numbers"),
)
