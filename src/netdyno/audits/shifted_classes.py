"""Classes are numbered from 1: class 0 never occurs.

Looks for:  whole-number labels 1 … K in every split, without a 0.
Matters:    the model needs K + 1 outputs to bear them, and the first is learned to be wrong always: a wasted unit that takes
            probability, and off-by-one names in every report.
Try:        subtract 1 from the labels, or name the classes and number them from 0.
Not this:   a class 0 that has a name and no sample here (background, padding): that is a suspicion; labels with other gaps.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, View, audit, wrong
from netdyno.audits._learners import asks_for_classes, labels
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Of so few samples the first class may be missing by chance.
ENOUGH = 30


@audit(stage="data")
def shifted_classes(view: View) -> Finding | None:
    asks_for_classes(view)
    found = np.concatenate([labels(part) for part in view.parts.values()])
    if len(found) < ENOUGH or found.min() != 1:
        return None
    kinds = np.unique(found)
    if len(kinds) < 2 or kinds.max() != len(kinds):
        return None
    named = len(view.classes) > len(kinds)
    return wrong(
        f"labels run from 1 to {kinds.max()}: class 0 never occurs, so that a model needs {kinds.max() + 1} outputs for {len(kinds)} classes",
        fix="subtract 1 from the labels before they reach the loss",
        because={"lowest": 1.0, "highest": float(kinds.max()), "classes": float(len(kinds))},
        # A class 0 with a name may be there on purpose.
        confidence=0.6 if named else 0.9,
        explains=("missing-class",),
    )


def _from_one(part: Part) -> Part:
    assert part.y is not None
    return replace(part, y=part.y + 1)


SICK = (
    lambda: specimen("table", train=_from_one, val=_from_one, classes=4, seed=1),
    lambda: specimen("images", train=_from_one, val=_from_one),
)
WELL = (
    lambda: specimen("table"),
    lambda: specimen("text", classes=2),
)
