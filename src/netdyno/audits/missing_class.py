"""A class is judged that was never learned, or learned and never judged.

Looks for:  classes of one split that the other does not have at all, although by their share it should.
Matters:    what was never seen is never answered; what is never judged can fail unnoticed.
Try:        split by class (stratify), and look at the filter or the folder that lost the class.
Not this:   classes so rare that chance alone may leave them out of a small split; other shares (see `label-shift`).
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._features import class_name
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# That a class of its share is missing by chance must be less likely than this.
CHANCE = 1e-4
LEAST = 3  # samples of a class that count as the class being there
# A class that is never judged may be left out on purpose.
UNJUDGED = 0.6


@audit()
def missing_class(view: View) -> Finding | None:
    """Classes that one side lacks."""
    train = view.train
    if view.task != "classes" or train.y is None:
        raise Skip("the targets are no classes")
    if not view.others:
        raise Skip("there is no second split to compare with")
    for part in view.others:
        unlearned = _lacking(train, part)
        if unlearned:
            assert part.y is not None
            rows = np.flatnonzero(np.isin(part.y, unlearned))
            return wrong(
                f"{_listed(view, unlearned)} in {len(rows)} of {len(part)} samples of `{part.name}` and in none of {len(train)} of `train`",
                fix="put samples of it into training (split with stratify), or find the filter that lost them",
                because={"classes": float(len(unlearned)), "share": len(rows) / len(part)},
                exhibits=tuple(shown(view, part, int(row), "of a class that training never shows") for row in rows[:8]),
                confidence=0.95,
                explains=("label-shift", "covariate-shift", "hidden-imbalance", "shortcut-feature"),
            )
    for part in view.others:
        unjudged = _lacking(part, train)
        if unjudged:
            rows = np.flatnonzero(np.isin(train.y, unjudged))
            return wrong(
                f"{_listed(view, unjudged)} in {len(rows)} of {len(train)} samples of `train` and in none of {len(part)} of `{part.name}`: "
                "the score says nothing about it",
                fix="split with stratify, so that every class is judged",
                because={"classes": float(len(unjudged)), "share": len(rows) / len(train)},
                exhibits=tuple(shown(view, train, int(row), "of a class that is never judged") for row in rows[:8]),
                confidence=UNJUDGED,
                layer="generalisation",
                explains=("label-shift",),
            )
    return None


def _lacking(poor: Part, rich: Part) -> list[int]:
    """The classes of `rich` that `poor` should have by their share and does not."""
    assert poor.y is not None
    assert rich.y is not None
    kinds, counts = np.unique(rich.y, return_counts=True)
    there = set(np.unique(poor.y).tolist())
    return [
        int(kind)
        for kind, count in zip(kinds, counts, strict=True)
        if int(kind) not in there and count >= LEAST and (1 - count / len(rich)) ** len(poor) < CHANCE
    ]


def _listed(view: View, kinds: list[int]) -> str:
    names = ", ".join(f"`{class_name(view, kind)}`" for kind in kinds[:5])
    return (
        f"class {names} is"
        if len(kinds) == 1
        else f"{len(kinds)} classes ({names}{', …' if len(kinds) > 5 else ''}) are"
    )


def _without(part: Part, kind: int = 1) -> Part:
    assert part.y is not None
    kept = np.flatnonzero(part.y != kind)
    x = [part.x[at] for at in kept] if isinstance(part.x, list) else part.x[kept]
    return replace(part, x=x, y=part.y[kept], indices=kept)


SICK = (
    lambda: specimen("images", train=_without),
    lambda: specimen("text", train=_without),
    lambda: specimen("table", val=_without),
)
# All there; of two hundred classes some are missing in a small split.
WELL = (lambda: specimen("table"), lambda: specimen("table", classes=100, sizes=(400, 40)))
