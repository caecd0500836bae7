"""Gradients are cleared between the backward pass and the step, which then moves nothing.

Looks for:  steps that met no gradient, or only zeros, right after a backward pass had made one.
Matters:    the loss is computed, the pass is paid for, and the weights stay where they are.
Try:        `zero_grad` before the backward pass, `step` after it.
Not this:   steps of another optimizer's gradients, and parameters that rest in some updates.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen, stepper
from netdyno.rules._remedies import remedy

LOOKS = 2  # the first look does not know yet what a pass makes; two that agree are no accident
SHARE = 0.9  # an odd look may belong to a skipped step


@rule(suggests=(), stage="order")
def cleared_before_step(gradients: Gradients) -> Finding | None:
    emptied = [one for one in gradients.steppers if one.cleared >= LOOKS and one.cleared >= SHARE * (one.looks - 1)]
    if not emptied:
        return None
    worst = max(emptied, key=lambda one: one.cleared)
    return Finding(
        says=f"in {worst.cleared} of {worst.looks} looks the gradients that the backward pass had made were gone when the optimizer"
        " stepped: they are cleared in between, so no weight moves",
        layer="optimisation",
        saves=NOTHING,
        because={"cleared": float(worst.cleared), "looks": float(worst.looks)},
        fix="call `zero_grad()` before `loss.backward()`, not between it and `step()`",
        where=gradients.backward_where,
        confidence=1.0,
        remedies=remedy("keep-gradients"),
    )


SICK = ((seen(steppers=(stepper(cleared=3, looks=4),)),),)
# Never; once, in a GAN whose other optimizer clears.
WELL = ((seen(),), (seen(steppers=(stepper(cleared=1, looks=12), stepper(index=1))),))
