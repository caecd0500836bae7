"""Inputs of another split come from elsewhere than training's.

Looks for:  a plain classifier that tells, out of sample, from which split an input is (a two-sample test with a permutation
            p-value), with classes in equal shares and whole groups dealt out where they are known; and the columns that carry it.
Matters:    the score is of other inputs than those that were learned from: neither tuning nor early stopping can trust it.
Try:        split at random where both should be alike; otherwise collect, weigh or adapt to inputs like those to be judged.
Not this:   other shares of classes (`label-shift`), swapped columns, differences that a classifier can hardly use, rows in groups
            whose column is not named: then the groups may be what is told apart.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._features import filled, named_column
from netdyno.audits._learners import Apart, alike_in_classes, near_rows, others, some, told_apart
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Below 30 a side the AUC of chance runs from 0.3 to 0.7.
ENOUGH = 30
# Two normals that lie 1.2 deviations apart in one direction have this AUC: by then a tuned threshold is off for many.
TELLING, CLEAR = 0.80, 0.90
# None of 300 permutations as far, and more deviations than they can count. Of whole groups there are fewer, so that the AUC of
# chance has longer tails than its deviation says, and fewer deviations to be had.
LEVEL, DEVIATIONS, OF_GROUPS = 0.005, 4.5, 3.0
# Told also of rows unlike those that were learned from. Where all inputs moved by half a deviation this is 0.8 and more, and at most
# 0.07 below the AUC; of rows in groups that nobody named it is 0.4 to 0.8, and 0.1 to 0.5 below.
AFAR, LESS_AFAR, YET_AFAR = 0.75, 0.07, 0.80
# A column is named when a fifth of its values would have to move, beyond any chance among so many columns.
MOVED, COLUMN_LEVEL = 0.2, 1e-4
MOST_COLUMNS = 5


@audit(stage="data", dear=True)
def covariate_shift(view: View) -> Finding | None:
    judged = [part for part in others(view) if len(part) >= ENOUGH and len(view.train) >= ENOUGH]
    if not judged:
        raise Skip(f"a split has fewer than {ENOUGH} samples")
    found = [(apart, part) for part in judged if (apart := _apart(view, part)) is not None]
    if not found:
        return None
    apart, part = max(found, key=lambda one: one[0].auc)
    moved = _moved(view, part)
    return wrong(
        f"the inputs of {part.name} differ from training's: a plain classifier tells them apart with an AUC of {apart.auc:.2f} "
        f"(0.5 is chance; p {'<' if apart.p < LEVEL else '='} {max(apart.p, LEVEL):.3f} by permutation){_carried(view, moved)}",
        fix=f"split at random if {part.name} should be like training; otherwise train on inputs like those of {part.name}",
        because={
            "auc": apart.auc,
            "auc_afar": apart.afar,
            "p": apart.p,
            "deviations": apart.deviations,
            "columns": float(len(moved)),
        },
        confidence=0.9 if _sure(view, apart, moved) else 0.6,
        layer="generalisation",
    )


def _sure(view: View, apart: Apart, moved: list[tuple[float, int]]) -> bool:
    """Whether someone could point at it, in one column or at once, and it is not groups of rows that are told apart."""
    grouped = view.train.groups is None and apart.auc - apart.afar > LESS_AFAR
    columns = bool(moved) and view.modality in {"table", "tensors"}
    return not grouped and (columns or apart.auc > CLEAR)


def _apart(view: View, part: Part) -> Apart | None:
    chance = np.random.default_rng(view.seed)
    mine, theirs = alike_in_classes(view, part, chance)
    if min(len(mine), len(theirs)) < ENOUGH:
        return None
    groups = None
    if view.train.groups is not None and part.groups is not None:
        groups = np.concatenate((view.train.groups[mine], part.groups[theirs]))
    x = near_rows(view)
    apart = told_apart(x["train"][mine], x[part.name][theirs], chance=chance, groups=groups)
    afar = AFAR if apart.auc - apart.afar <= LESS_AFAR else YET_AFAR
    telling = apart.auc >= TELLING and (apart.afar >= afar or groups is not None)
    beyond = apart.p < LEVEL and apart.deviations >= (DEVIATIONS if groups is None else OF_GROUPS)
    return apart if telling and beyond else None


def _moved(view: View, part: Part) -> list[tuple[float, int]]:
    """Columns whose values moved: the Kolmogorov-Smirnov distance and the number, the farthest first.

    Of pictures, texts and series the directions of their features stand in for columns.
    """
    from scipy.stats import ks_2samp

    source = filled(view) if view.modality in {"table", "tensors"} else near_rows(view)
    one, other = source["train"], source[part.name]
    one, other = one[some(len(one), 2000, view.seed)], other[some(len(other), 2000, view.seed)]
    found = []
    for number in range(one.shape[1]):
        tested = ks_2samp(one[:, number], other[:, number], method="asymp")
        if tested.statistic >= MOVED and tested.pvalue < COLUMN_LEVEL / one.shape[1]:
            found.append((float(tested.statistic), number))
    return sorted(found, reverse=True)


def _carried(view: View, moved: list[tuple[float, int]]) -> str:
    if not moved or view.modality not in {"table", "tensors"}:
        return ""
    names = ", ".join(f"{named_column(view, number)} ({far:.0%} apart)" for far, number in moved[:MOST_COLUMNS])
    return f"; it shows most in {names}"


def _shifted(part: Part) -> Part:
    x = np.array(part.x)
    x[..., :4] = 3 * x[..., :4] + 1
    return replace(part, x=x)


def _darker(part: Part) -> Part:
    return replace(part, x=np.asarray(part.x) ** 2)


SICK = (lambda: specimen("table", val=_shifted), lambda: specimen("images", val=_darker))
# Alike; other shares of classes; series; texts.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("images", seed=2),
    lambda: specimen("series", seed=1),
    lambda: specimen("text", seed=1),
)
