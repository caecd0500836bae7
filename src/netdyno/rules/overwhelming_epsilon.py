"""Adam's epsilon is larger than the gradients it is added to, so steps shrink to nothing.

Looks for:  an epsilon above the root of the mean squared gradient that Adam keeps, in a run that learnt little.
Matters:    the step is the gradient over epsilon instead of over its own size: the learning rate is in effect far lower.
Try:        the default, 1e-8.
Not this:   a larger epsilon on purpose in a run that learns.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    curve,
    ends,
    group,
    learns_little,
    longest,
    matrices,
    middle,
    seen,
    stepper,
    stepper_of,
    weight,
)
from netdyno.rules._remedies import remedy

HEAVY = 3.0  # steps are a quarter of what they would be
NEAR = 0.3  # weights that moved by less than this had no chance to learn; a healthy run moves them by about their size


@rule(suggests=(), stage="settings")
def overwhelming_epsilon(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or (stepper.eps_share or 0) < HEAVY or not learns_little(course, stepper):
        return None
    moved = middle([one.moved for one in matrices(gradients, stepper)])
    if moved is None or moved > NEAR:
        return None
    eps = max(one.eps or 0.0 for one in stepper.groups)
    at = ends(course)
    return Finding(
        says=f"epsilon of {eps:g} is {stepper.eps_share:.3g} times the size of the gradients that {stepper.kind} divides by: steps are"
        f" that much shorter, and the loss went from {at.start:.3g} to {at.last:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"eps": eps, "share": stepper.eps_share or 0.0, "moved": moved, "last_loss": at.last},
        fix="leave epsilon at its default, 1e-8",
        where=gradients.optimizer_where,
        confidence=0.9,
        remedies=remedy("set-optimizer", eps=1e-8),
    )


_HEAVY = (stepper(group(eps=1.0), eps_share=120.0),)
_NEAR = (weight(moved=0.01), weight("head.weight", moved=0.02))
SICK = ((seen(*_NEAR, steppers=_HEAVY), curve(*STAYS)),)
# It learns; the default; it moved.
WELL = (
    (seen(*_NEAR, steppers=_HEAVY), curve(*FALLS)),
    (seen(*_NEAR), curve(*STAYS)),
    (seen(steppers=_HEAVY), curve(*STAYS)),
)
