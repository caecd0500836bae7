"""Training and another split are scaled differently.

Looks for:  one factor between the spreads of all features of two splits, or one side standardised and the other not.
Matters:    the model is judged on numbers it never saw the like of; the score says nothing about it.
Try:        fit the scaling on the training data, once, and apply it to every split.
Not this:   inputs of another kind, whose features move each its own way (`covariate-shift`); differences of small samples.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A spread of 30 rows is known to 13 %, and its logarithm to as much.
ENOUGH = 30
# Three features that move by one factor do not do so by chance.
LEAST_FEATURES = 3
# Beyond what other conditions of recording do to all features alike, light for instance.
FACTOR = 1.6
# Spread of the logarithm of the factor over features: for one factor for all. Of a large factor a tenth.
SAME, PART = 0.15, 0.1
# What was standardised on all of training has in a sample of it a mean near 0 and a deviation near 1.
NEAR = 0.15
MOST_COLUMNS = 400


class Apart(NamedTuple):
    """What lies between two splits: the factor of their spreads, how alike it is over features, and who is standardised."""

    factor: float
    spread: float
    standardised: str
    moved: float
    features: int


@audit(modalities=("images", "table", "series", "tensors"))
def split_scaling(view: View) -> Finding | None:
    judged = [part for part in view.others if len(part) >= ENOUGH and len(view.train) >= ENOUGH]
    if not judged:
        raise Skip(f"a split has fewer than {ENOUGH} samples")
    for part in judged:
        apart = _apart(view, part)
        if apart is None:
            continue
        one = f"only {apart.standardised}'s inputs are standardised; " if apart.standardised else ""
        return wrong(
            f"{one}the features of {part.name} spread {apart.factor:.3g} times as wide as training's",
            fix="apply the scaling that was fitted on the training data to the other splits too",
            because={"factor": apart.factor, "moved_share": apart.moved, "features": float(apart.features)},
            exhibits=(shown(view, part, 0), shown(view, view.train, 0)),
            confidence=0.9 if apart.spread < SAME else 0.8,
            explains=("covariate-shift", "value-range"),
        )
    return None


def _apart(view: View, part: Part) -> Apart | None:
    mine, theirs = _columns(view.train), _columns(part)
    if mine.shape[1] != theirs.shape[1]:
        return None
    told = _telling(mine, theirs)
    if told.sum() < LEAST_FEATURES:
        return None
    mine, theirs = mine[:, told], theirs[:, told]
    logs = np.log(theirs.std(0) / mine.std(0))
    factor, spread = float(np.exp(np.median(logs))), float(np.median(np.abs(logs - np.median(logs))) * 1.4826)
    offset = np.abs(theirs.mean(0) - mine.mean(0)) / np.maximum(mine.std(0), theirs.std(0))
    moved = float(((np.abs(logs) > np.log(FACTOR)) | (offset > 2)).mean())
    away = abs(np.log(factor))
    one_factor = away >= np.log(FACTOR) and spread < max(SAME, PART * away)
    sides = {"training": _standardised(mine), part.name: _standardised(theirs)}
    only = [name for name, is_so in sides.items() if is_so] if sum(sides.values()) == 1 else []
    if not one_factor and not (only and moved > 0.5):
        return None
    return Apart(factor, spread, only[0] if only else "", moved, int(told.sum()))


def _columns(part: Part) -> Array:
    """Features side by side: of pictures some pixels, evenly apart."""
    rows = np.nan_to_num(part.rows, nan=0.0, posinf=0.0, neginf=0.0)
    if rows.shape[1] <= MOST_COLUMNS:
        return rows
    return rows[:, np.linspace(0, rows.shape[1] - 1, MOST_COLUMNS).astype(int)]


def _telling(mine: Array, theirs: Array) -> Array:
    """The features that have a spread worth comparing: not constant, not one outlier, and of pictures the livelier half."""
    alive = np.minimum(mine.std(0), theirs.std(0)) > 0
    if not alive.any():
        return alive
    some = np.mean(mine != np.median(mine, axis=0), axis=0) > 0.25
    some &= np.mean(theirs != np.median(theirs, axis=0), axis=0) > 0.25
    return alive & some


def _standardised(rows: Array) -> bool:
    near = (np.abs(rows.mean(0)) < NEAR) & (np.abs(rows.std(0) - 1) < NEAR)
    return bool(near.mean() > 0.9)


def _other(part: Part, factor: float, offset: float = 0.0) -> Part:
    return replace(part, x=(part.x * np.float32(factor) + np.float32(offset)))


def _standard(part: Part) -> Part:
    mean, deviation = part.x.mean(0), part.x.std(0)
    return replace(part, x=(part.x - mean) / deviation)


SICK = (
    lambda: specimen("table", val=lambda part: _other(part, 6.0)),
    lambda: specimen("images", val=lambda part: _other(part, 255.0)),
    lambda: specimen("table", train=_standard, val=lambda part: _other(part, 50.0, 20.0)),
)
# Alike; other units in one column, which is another sickness.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("images"),
    lambda: specimen("series"),
    lambda: specimen("table", val=lambda part: replace(part, x=part.x * np.array([9, 1, 1, 1, 1, 1, 1], np.float32))),
)
