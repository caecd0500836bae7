"""Gradients of a recurrent network explode now and then, and nobody clips them.

Looks for:  recurrent layers, no clipping, norms whose largest is many times the usual one, and a loss that leaps.
Matters:    one leap undoes hundreds of good steps.
Try:        `clip_grad_norm_` near the 90th percentile of the norms.
Not this:   clipped gradients, a smooth loss, or networks without recurrence.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    curve,
    diverged,
    ends,
    longest,
    middle,
    reference,
    seen,
    stepper,
    stepper_of,
)
from netdyno.rules._remedies import remedy

TAIL = 20.0  # times the median; norms of healthy recurrent networks stay within ten
NORMS = 4
LEAP = 2.0  # times the loss of knowing nothing


@rule(suggests=(), stage="dynamics")
def exploding_gradient(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or not gradients.recurrent or gradients.clips or len(stepper.norms) < NORMS:
        return None
    usual, largest, at = middle(stepper.norms), max(stepper.norms), ends(course)
    leapt = at.highest > LEAP * reference(course, stepper) or diverged(course)
    if not usual or largest < TAIL * usual or not leapt:
        return None
    return Finding(
        says=f"gradients of the recurrent network reached a norm of {largest:.3g}, {largest / usual:.0f} times the usual one, the loss leapt to"
        f" {at.highest:.3g}, and nothing clips them",
        layer="optimisation",
        saves=NOTHING,
        because={"largest": largest, "usual": usual, "highest_loss": at.highest},
        fix=f"`clip_grad_norm_(model.parameters(), {2 * usual:.2g})` before the step",
        where=gradients.backward_where,
        confidence=0.8,
        remedies=remedy("clip-gradients", max_norm=2 * usual),
    )


_TAIL = (stepper(norms=(0.5, 0.6, 0.5, 40.0, 0.7)),)
SICK = ((seen(steppers=_TAIL, recurrent=True), curve(1.1, 0.8, 9.0, 0.9, 0.7, 5.0, chance=1.1)),)
# A smooth loss; no recurrence; a usual tail.
WELL = (
    (seen(steppers=_TAIL, recurrent=True), curve(*FALLS)),
    (seen(steppers=_TAIL), curve(1.1, 0.8, 9.0, 0.9, 0.7, 5.0, chance=1.1)),
    (seen(recurrent=True), curve(1.1, 0.8, 9.0, 0.9, 0.7, 5.0, chance=1.1)),
)
