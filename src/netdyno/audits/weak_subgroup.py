"""One group of samples is answered far worse than the others.

Looks for:  samples that share a group, or one of few values of a column, and that a plain model answers out of sample far less often
            than the others, and than the mix of their classes lets expect, beyond what chance does among so many groups.
Matters:    the average hides it: for these samples the model is of little use.
Try:        look at where they come from; more or better data of that group, or a score for each group.
Not this:   a class that is hard (see `hidden-imbalance`), groups of a few rows, differences of a few points.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import filled, named_column
from netdyno.audits._learners import answers, asks_for_classes
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# One false alarm in ten thousand data sets, however many groups there are.
LEVEL = 1e-4
# What is worth a word: a quarter of the group's rows is wrong that would be right in another.
GAP = 0.25
# Below 20 rows a quarter is five rows. A column of more than eight values is a quantity and not a group: along a quantity the
# errors gather at the borders of classes, as they should.
ENOUGH, LEVELS = 20, 8
# A group is some of the samples; where most of them are weak the task is hard.
MOST = 0.6
GROUPS = 50


class Weak(NamedTuple):
    """A group by its name, its rows, the share that is right, that of the others, what its classes let expect, and deviations."""

    name: str
    rows: Array
    score: float
    rest: float
    expected: float
    below: float


@audit(stage="outcome", dear=True)
def weak_subgroup(view: View) -> Finding | None:
    asks_for_classes(view)
    told = answers(view)
    right = told.best.argmax(1) == told.given
    groups = list(_groups(view, told.rows))
    if not groups:
        raise Skip("no groups are named, and no column has few values")
    judged = [_judged(name, rows, right, told.given) for name, rows in groups]
    worst = min(judged, key=lambda one: one.below)
    if worst.below > NormalDist().inv_cdf(LEVEL / len(judged)) or min(worst.rest, worst.expected) - worst.score < GAP:
        return None
    return wrong(
        f"of the {len(worst.rows)} training samples with {worst.name} a plain model answers only {worst.score:.0%} out of sample, of the "
        f"others {worst.rest:.0%}",
        layer="generalisation",
        fix="look at the data of this group: fewer, noisier or other samples than the rest",
        because={
            "score": worst.score, "rest": worst.rest, "expected": worst.expected, "rows": float(len(worst.rows)),
            "groups": float(len(judged)), "deviations": worst.below,
        },
        exhibits=tuple(
            shown(view, view.train, int(told.rows[row]), "answered wrongly") for row in worst.rows[~right[worst.rows]][:8]
        ),
        confidence=0.8,
    )  # fmt: skip


def _groups(view: View, rows: Array) -> Iterator[tuple[str, Array]]:
    """Named groups, and the values of columns that have few."""
    if view.train.groups is not None:
        yield from _shared("group", view.train.groups[rows])
    if view.modality != "text":
        x = filled(view)["train"][rows]
        for number in range(x.shape[1]):
            yield from _shared(named_column(view, number), x[:, number], LEVELS)


def _shared(name: str, values: Array, most: int = GROUPS) -> Iterator[tuple[str, Array]]:
    kinds, counts = np.unique(values, return_counts=True)
    if not 2 <= len(kinds) <= most:
        return
    for kind, count in zip(kinds, counts, strict=True):
        if ENOUGH <= count <= MOST * len(values):
            yield (
                f"{name} = {kind:g}" if np.issubdtype(values.dtype, np.number) else f"{name} `{kind}`",
                np.flatnonzero(values == kind),
            )


def _judged(name: str, rows: Array, right: Array, given: Array) -> Weak:
    """A group against the others class by class: a group of a hard class is no weaker than the class."""
    inside = np.zeros(len(right), dtype=bool)
    inside[rows] = True
    expected = np.array([_rate(right[~inside & (given == kind)]) for kind in given[rows]])
    score, mean = float(right[rows].mean()), float(expected.mean())
    # Never surer than a class of which nine tenths are right: the others' rates are estimates, too.
    spread = np.sqrt(np.maximum(expected * (1 - expected), 0.09).sum())
    return Weak(
        name, rows, score, float(right[~inside].mean()), mean, float((right[rows].sum() - expected.sum()) / spread)
    )


def _rate(right: Array) -> float:
    """Of a class that only this group has nothing is known: then nothing is expected of it."""
    return float(right.mean()) if len(right) >= 10 else 0.0


def _noisy(part: Part) -> Part:
    """A quarter of the rows is another machine's, marked in the column of four levels, and hardly legible."""
    chance = np.random.default_rng(len(part))
    x = np.array(part.x)
    old = x[:, 6] == 2
    x[old, :5] += chance.normal(0, 12, (int(old.sum()), 5))
    return replace(part, x=x)


SICK = (
    lambda: specimen("table", sizes=(600, 200), train=_noisy, val=_noisy),
    lambda: specimen(
        "table", sizes=(600, 200), train=lambda part: replace(_noisy(part), groups=np.asarray(part.x)[:, 6].astype(int))
    ),
)
WELL = (
    lambda: specimen("table", sizes=(600, 200)),
    lambda: specimen("table", train={"groups": np.arange(240) % 4}),
    lambda: specimen("table", classes=2, seed=1),
)
