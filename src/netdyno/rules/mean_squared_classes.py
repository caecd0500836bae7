"""Classes are learnt as if their numbers were quantities.

Looks for:  a squared or absolute distance to whole numbers 0, 1, 2, … that were ids: all of them occur, about as often.
Matters:    class 3 is then three times class 1, and what lies between two classes is a third one.
Try:        one output per class and cross_entropy.
Not this:   ratings and counts (they begin elsewhere, or pile up), one-hot targets, real quantities.
"""

from math import sqrt
from typing import Any

from netdyno.records.calls import LossCalls, LossUse
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import DISTANCES, LIKELY, NOTHING, losses, training, used

# Fewer are a yes and no, which a distance can learn; more are rather counts.
FEW, MANY = 4, 50
EVEN = 2.0  # the most frequent class has at most so many times its share
ERRORS = 3.0  # standard errors of a share: it is the largest of all classes and batches that were looked at


@rule(stage="loss")
def mean_squared_classes(losses: LossCalls) -> Finding | None:
    for use in training(losses, *DISTANCES):
        kinds = use.distinct or 0
        single = len(use.input_shape) == 1 or use.input_shape[-1:] == (1,)
        if not single or not use.whole_targets or not FEW <= kinds <= MANY or use.common > _share(use, kinds):
            continue
        if use.target_low != 0 or use.target_high != kinds - 1:
            continue
        return Finding(
            says=f"{use.name} is taken from {kinds} class ids, 0 to {kinds - 1}, as if they were quantities",
            layer="optimisation",
            saves=NOTHING,
            because={"classes": float(kinds), "most_frequent": use.common},
            fix=f"give the model {kinds} outputs and use cross_entropy",
            where=use.where,
            confidence=LIKELY,
        )
    return None


def _share(use: LossUse, kinds: int) -> float:
    even = EVEN / kinds
    return even + ERRORS * sqrt(even * (1 - even) / max(1, use.target_shape[0] if use.target_shape else 1))


_IDS: dict[str, Any] = {"input_shape": (64, 1), "whole_targets": True, "distinct": 10, "common": 0.12, "classes": None}
SICK = ((losses(used("mse_loss", **_IDS)),),)
# Ratings from 1; counts that pile up; real numbers; one-hot targets; two classes.
WELL = (
    (losses(used("mse_loss", **(_IDS | {"target_low": 1.0, "target_high": 10.0}))),),
    (losses(used("mse_loss", **(_IDS | {"common": 0.5}))),),
    (losses(used("mse_loss", **(_IDS | {"whole_targets": False}))),),
    (losses(used("mse_loss", **(_IDS | {"input_shape": (64, 10), "distinct": 2, "target_high": 1.0}))),),
    (losses(used("mse_loss", **(_IDS | {"distinct": 2, "target_high": 1.0}))),),
)
