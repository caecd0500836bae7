"""One class is so common that accuracy hides whether the others are found.

Looks for:  classes so rare that a model that never answers them still has an accuracy that looks good.
Matters:    99 % accuracy may mean that nothing was learned: the score of a guess is the share of the commonest class.
Try:        report balanced accuracy or average precision beside it, and weigh the loss by class or draw rare samples more often.
Not this:   a split in which a class is missing (see `missing-class`); unequal classes of which each is still seen often.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import class_name
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A class is rare with less than 0.15 of its even share: of two classes 7.5 %, where the guess is right in 92.5 % of cases and
# passes for a good model; of ten 1.5 %.
RARE = 0.15
LEAST = 100
# Whoever draws by weights knows of it; what is left is how the score is told.
WEIGHTED = 0.5


@audit()
def hidden_imbalance(view: View) -> Finding | None:
    """Classes that accuracy does not see."""
    train = view.train
    if view.task != "classes" or train.y is None:
        raise Skip("the targets are no classes")
    judged = next((part for part in view.others if part.y is not None and len(part) >= LEAST), train)
    assert judged.y is not None
    if len(train) < LEAST:
        raise Skip(f"fewer than {LEAST} training samples say too little about shares")
    kinds, counts = np.unique(train.y, return_counts=True)
    rare = [int(kind) for kind in kinds[counts / len(train) < RARE / len(kinds)]]
    if len(kinds) < 2 or not rare:
        return None
    common = int(kinds[counts.argmax()])
    told = _hidden(judged.y, common, rare)
    names = ", ".join(f"`{class_name(view, kind)}`" for kind in rare[:4]) + (", …" if len(rare) > 4 else "")
    return wrong(
        f"{names} {'is' if len(rare) == 1 else 'are'} {told['rare_share']:.2%} of `{judged.name}`: a model that never answers "
        f"{'it' if len(rare) == 1 else 'them'} can reach {1 - told['rare_share']:.2%} accuracy and finds 0 of {told['rare']:.0f}. Always "
        f"`{class_name(view, common)}` has {told['guess']:.1%} accuracy, {told['balanced']:.1%} balanced",
        fix="judge by balanced accuracy and, per rare class, average precision (a guess has its share); weigh the loss or draw by class",
        because=told | {"classes": float(len(kinds))},
        exhibits=tuple(
            shown(view, train, int(row), f"of the rare class `{class_name(view, train.y[row])}`")
            for row in np.flatnonzero(np.isin(train.y, rare))[:4]
        ),
        confidence=WEIGHTED if _weighted(view) else 0.8,
    )


def _hidden(y: Array, common: int, rare: list[int]) -> dict[str, float]:
    """What a guess of the common class scores: accuracy, its mean over classes, and average precision, which is the share itself."""
    share = float(np.isin(y, rare).mean())
    return {
        "guess": float((y == common).mean()),
        "balanced": 1 / max(1, len(np.unique(y))),
        "rare_share": share,
        "rare": float(np.isin(y, rare).sum()),
        "average_precision_of_a_guess": share,
    }


def _weighted(view: View) -> bool:
    loader: Any = getattr(view.workload, "loader", None) or {}
    return "sampler" in loader


def _rarely(part: Part, every: int = 60) -> Part:
    assert part.y is not None
    y = (np.arange(len(part)) % every == 0).astype(np.int64)
    return replace(part, y=y)


SICK = (
    lambda: specimen("table", sizes=(600, 300), train=_rarely, val=_rarely, classes=2),
    lambda: specimen("images", sizes=(600, 300), train=_rarely, val=_rarely, classes=2),
)
# Even; one in eight.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", classes=2, train=lambda part: _rarely(part, 8), val=lambda part: _rarely(part, 8)),
)
