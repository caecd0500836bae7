"""Weight decay shrinks a single scale or temperature that the loss needs large.

Looks for:  a parameter of one number in a group with weight decay that shrank by what the decay alone predicts, while the
            training loss rose again from its best.
Matters:    confidence falls with the scale, however right the answers are.
Try:        a group with `weight_decay=0` for scales, norms and biases.
Not this:   a scale that the gradients themselves make smaller, and a loss that goes on falling.
"""

import math

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve, Weight
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    curve,
    ends,
    group,
    longest,
    seen,
    stepper,
    stepper_of,
    weight,
    weights_of,
)
from netdyno.rules._remedies import remedy

LOST = 0.8  # a scale that lost a fifth changes every answer
# Both ends are means over eight updates and more: one standard deviation of a single loss is about three of theirs.
ROSE = 1.3  # the training loss ends a third above its best: more than a schedule or noise does


@rule(suggests=(), stage="settings")
def decayed_scale(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None:
        return None
    at = ends(course)
    if at.best <= 0 or at.last < ROSE * at.best or at.last < at.best + at.noise:
        return None
    scales = [
        one
        for one in weights_of(gradients, stepper)
        if math.prod(one.shape) == 1 and _decays(stepper.groups[one.group].weight_decay, one)
    ]
    if not scales:
        return None
    worst = min(scales, key=_kept)
    if _kept(worst) > LOST:
        return None
    decay = stepper.groups[worst.group].weight_decay or 0.0
    return Finding(
        says=f"`{worst.name}` shrank from {worst.norm_first:.3g} to {worst.norm_last:.3g} under a weight decay of {decay:g}, and the"
        f" training loss rose from {at.best:.3g} to {at.last:.3g}: a scale must not be decayed",
        layer="optimisation",
        saves=NOTHING,
        because={"kept": _kept(worst), "weight_decay": decay, "best_loss": at.best, "last_loss": at.last},
        fix="put scales, biases and norms into a group with `weight_decay=0`",
        where=gradients.optimizer_where,
        confidence=0.85,
        remedies=remedy("set-optimizer", weight_decay=0.0),
    )


def _decays(decay: float | None, one: Weight) -> bool:
    return (
        bool(decay) and bool(one.norm_first) and one.norm_last is not None and "bias" not in one.name.rpartition(".")[2]
    )


def _kept(one: Weight) -> float:
    return (one.norm_last or 0.0) / one.norm_first if one.norm_first else 1.0


_SCALE = weight("scale", module="Net", shape=(), norm_first=10.0, norm_last=2.0, row_spread_first=None)
_DECAYS = (stepper(group(weight_decay=0.1), kind="AdamW"),)
SICK = ((seen(weight(), _SCALE, steppers=_DECAYS), curve(2.3, 0.4, 0.1, 0.05, 0.2, 0.4, 0.6, 0.7, kind="AdamW")),)
# The loss goes on falling; nothing is decayed; the scale grew.
WELL = (
    (seen(weight(), _SCALE, steppers=_DECAYS), curve(*FALLS, kind="AdamW")),
    (seen(weight(), _SCALE), curve(2.3, 0.4, 0.1, 0.05, 0.2, 0.4, 0.6, 0.7)),
    (
        seen(weight(), weight("scale", shape=(), norm_first=10.0, norm_last=14.0), steppers=_DECAYS),
        curve(2.3, 0.4, 0.05, 0.6, kind="AdamW"),
    ),
)
