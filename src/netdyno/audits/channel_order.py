"""Colour channels of a split are in another order than training's.

Looks for:  pictures of three channels whose first and last have changed places between two splits, as red and blue do between
            libraries that read RGB and those that read BGR.
Matters:    colours that were learned are others in evaluation: skin is blue; the score is that of other pictures.
Try:        reverse the channels where the pictures are read: `image[:, :, ::-1]`.
Not this:   grey pictures; pictures whose red and blue are alike; another white balance, in which no order is reversed.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._learners import near_rows, told_apart
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

ENOUGH = 30
# The difference between the outer channels must be there beyond chance in both splits, and not be a hair's breadth.
DEVIATIONS, SPREADS = 6.0, 0.2
# Reversed, it is the same difference again: within a third.
ALIKE = 1.5
# Above this AUC a plain classifier tells two splits apart.
TELLING = 0.75
# And each channel is then that of training, within so many standard errors.
CHANCE = 4.0


@audit(modalities=("images",))
def channel_order(view: View) -> Finding | None:
    if np.asarray(view.train.x).shape[1] != 3:
        raise Skip("the pictures have no three channels")
    mine = _leaning(view.train)
    if not _beyond(mine):
        return None
    for part in view.others:
        if len(part) < ENOUGH or np.asarray(part.x).shape[1] != 3:
            continue
        theirs = _leaning(part)
        ratio = -theirs.mean() / mine.mean()
        if not _beyond(theirs) or not 1 / ALIKE < ratio < ALIKE or not _mirrored(view.train, part):
            continue
        # Other scenes may lean the other way by themselves: turned round, a swapped split is like training in everything else too.
        turned = replace(view, parts={**view.parts, part.name: _reversed(part)})
        rows = near_rows(turned)
        apart = told_apart(rows["train"], rows[part.name], chance=np.random.default_rng(view.seed))
        return wrong(
            f"the first channel less the last is {mine.mean():+.3g} in training and {theirs.mean():+.3g} in {part.name}: red and blue "
            f"have changed places",
            fix="read both in one order of channels (`image[:, :, ::-1]` turns BGR into RGB)",
            because={"training": float(mine.mean()), "other": float(theirs.mean()), "ratio": float(ratio)},
            exhibits=(shown(view, part, 0), shown(view, view.train, 0)),
            confidence=0.9 if apart.auc < TELLING else 0.6,
            explains=("covariate-shift",),
        )
    return None


def _leaning(part: Part) -> Array:
    """First channel less last, one number per picture."""
    x = np.nan_to_num(np.asarray(part.x, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0).mean((2, 3))
    return np.asarray(x[:, 0] - x[:, 2])


def _beyond(leaning: Array) -> bool:
    spread = leaning.std()
    if len(leaning) < ENOUGH or spread == 0:
        return False
    away = abs(leaning.mean()) / spread
    return bool(away > SPREADS and away * np.sqrt(len(leaning)) > DEVIATIONS)


def _mirrored(train: Part, part: Part) -> bool:
    """Whether the channels in reverse are those of training but for chance, all three: other scenes lean the other way too."""
    mine, theirs = (_channels(each) for each in (train, part))
    chance = np.sqrt(mine.var(0) / len(mine) + theirs.var(0) / len(theirs))
    turned = np.abs(theirs.mean(0)[::-1] - mine.mean(0))
    return bool((turned <= CHANCE * chance).all())


def _channels(part: Part) -> Array:
    """The mean of each channel, by picture."""
    x = np.nan_to_num(np.asarray(part.x, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(x.mean((2, 3)))


def _reversed(part: Part) -> Part:
    return replace(part, x=np.ascontiguousarray(part.x[:, ::-1]))


SICK = (lambda: specimen("images", val=_reversed), lambda: specimen("images", train=_reversed, seed=3))
# One order; both reversed; grey; a little less blue.
WELL = (
    lambda: specimen("images"),
    lambda: specimen("images", train=_reversed, val=_reversed),
    lambda: specimen("images", channels=1),
    lambda: specimen(
        "images", val=lambda part: replace(part, x=part.x * np.array([1, 1, 0.9], np.float32)[:, None, None])
    ),
)
