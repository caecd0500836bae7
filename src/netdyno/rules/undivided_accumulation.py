"""Gradients of several micro-batches are summed and never divided, so a step is several times too long.

Looks for:  several backward passes to a step, of losses as the loss function gave them, in a run that ends no better than
            it began, or breaks, with steps that are large beside the weights.
Matters:    the learning rate is in effect as many times larger as there are micro-batches.
Try:        `(loss / micro_batches).backward()`.
Not this:   losses that are divided, sums that learn well (the learning rate may have been chosen for them), or two
            different losses of one batch.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    AS_IT_IS,
    FALLS,
    NOTHING,
    course,
    curve,
    diverged,
    ends,
    longest,
    middle,
    seen,
    stepper,
    stepper_of,
    weight,
    weights_of,
)
from netdyno.rules._remedies import remedy

LONG = 0.05  # a step of a twentieth of a weight forgets it within tens of updates; healthy ones lie near a thousandth to a fiftieth


@rule(suggests=(), stage="order")
def undivided_accumulation(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or stepper.backwards < 2 or stepper.divided is None:
        return None
    if abs(stepper.divided - 1) > AS_IT_IS or stepper.kind.startswith("Adam"):  # Adam divides by itself
        return None
    ratio = middle([one.ratio_first for one in weights_of(gradients, stepper)])
    at = ends(course)
    harmed = diverged(course) or at.last > 0.7 * at.start
    if not harmed or ratio is None or ratio < LONG:
        return None
    return Finding(
        says=f"each step applies the sum of {stepper.backwards} micro-batches' gradients, whose losses were not divided: it is"
        f" {stepper.backwards} times as long as the learning rate says, {ratio:.0%} of a weight",
        layer="optimisation",
        saves=NOTHING,
        because={
            "micro_batches": float(stepper.backwards),
            "step": ratio,
            "first_loss": at.start,
            "last_loss": at.last,
        },
        fix=f"divide: `(loss / {stepper.backwards}).backward()`",
        where=gradients.backward_where,
        confidence=0.9,
        remedies=remedy("divide-loss", by=stepper.backwards),
    )


_SUMMED = stepper(kind="SGD", backwards=16, divided=1.0)
_LONG = (weight(ratio_first=0.4), weight("head.weight", ratio_first=0.3))
SICK = (
    (seen(*_LONG, steppers=(_SUMMED,)), curve(37.0, 400.0, 900.0, 1200.0, kind="SGD", summed=16, updates=60)),
    (
        seen(*_LONG, steppers=(_SUMMED,)),
        LossCurve(courses=(course(37.0, 60.0, kind="SGD", summed=16, broke=9, last_finite=False),)),
    ),
)
# Divided; a sum that learns; Adam, which divides by its own scale.
WELL = (
    (
        seen(*_LONG, steppers=(stepper(kind="SGD", backwards=16, divided=1 / 16),)),
        curve(2.3, 2.5, 2.4, kind="SGD", summed=16),
    ),
    (seen(*_LONG, steppers=(_SUMMED,)), curve(*FALLS, kind="SGD", summed=16)),
    (seen(*_LONG, steppers=(stepper(backwards=16),)), curve(37.0, 38.0, 39.0, summed=16)),
)
