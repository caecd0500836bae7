"""Many gradients become zero between the backward pass and the step: they are too small for the type they are kept in.

Looks for:  a large share of gradients' numbers that were not zero after the backward pass and are zero at the step.
Matters:    what is flushed never moves, or moves by chance.
Try:        bfloat16, a gradient scaler, or float32 gradients.
Not this:   masks of pruned weights, and sparse updates in a run that learns.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import FALLS, NOTHING, STAYS, curve, ends, longest, reference, seen, stepper, stepper_of

MANY = 0.3
LEFT = 0.3


@rule(suggests=(), stage="settings")
def flushed_gradients(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or (stepper.flushed or 0) < MANY:
        return None
    known, at = reference(course, stepper), ends(course)
    pruned = any(one.module.startswith("pruned") for one in gradients.weights)
    if known <= 0 or at.last < LEFT * known or pruned:
        return None
    return Finding(
        says=f"{stepper.flushed:.0%} of the gradients' numbers become exactly 0 between the backward pass and the step, and the loss ended at"
        f" {at.last:.3g} of {known:.3g}: they are below what a half-precision type can hold",
        layer="optimisation",
        saves=NOTHING,
        because={"flushed": stepper.flushed or 0.0, "last_loss": at.last},
        fix="keep gradients in float32 or bfloat16, or scale the loss with `GradScaler`",
        where=gradients.backward_where,
        confidence=0.85,
    )


SICK = ((seen(steppers=(stepper(flushed=0.8),)), curve(*STAYS)),)
WELL = ((seen(steppers=(stepper(flushed=0.8),)), curve(*FALLS)), (seen(), curve(*STAYS)))
