"""Weight decay pulls harder than the gradients: weights shrink faster than they learn.

Looks for:  a pull of weight decay above that of the gradients in most looks, matrices that shrank, and a run that learnt
            little or lost what it had learnt.
Matters:    the network is pulled towards answering a constant.
Try:        a hundredth of the weight decay.
Not this:   a decay whose pull balances the gradients in a run that learns, and pruning on purpose.
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
    longest,
    matrices,
    middle,
    reference,
    seen,
    stepper,
    stepper_of,
    weight,
)
from netdyno.rules._remedies import remedy

SHRUNK = 0.7  # weights that learn grow; those that lose a third of their size beside strong decay are pulled
PULL = 1.0  # the decay's part of a step is larger than the gradient's
LEFT = 0.5  # half of what could be learnt is not


@rule(suggests=(), stage="settings")
def overwhelming_weight_decay(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or stepper.decay is None or course.broke is not None:
        return None
    kept = middle(
        [
            one.norm_last / one.norm_first
            for one in matrices(gradients, stepper)
            if one.norm_first and one.norm_last is not None
        ]
    )
    known, at = reference(course, stepper), ends(course)
    if kept is None or kept > SHRUNK or known <= 0 or at.last < LEFT * known:
        return None
    strongest = max(one.weight_decay or 0.0 for one in stepper.groups)
    if not strongest or (stepper.decay < PULL and kept > SHRUNK / 4):
        return None
    return Finding(
        says=f"weight decay of {strongest:g} pulls {stepper.decay:.2g} times as hard as the gradients: weights shrank to"
        f" {kept:.0%} of their size and the loss ended at {at.last:.3g} of {known:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"pull": stepper.decay, "kept": kept, "weight_decay": strongest, "last_loss": at.last},
        fix=f"lower the weight decay, to {strongest / 100:g} or less",
        where=gradients.optimizer_where,
        confidence=0.9,
        remedies=remedy("set-optimizer", weight_decay=strongest / 100),
    )


_SHRUNK = (weight(norm_last=0.4), weight("head.weight", norm_last=0.3))
_STRONG = (stepper(group(weight_decay=0.5), kind="SGD", decay=3.0),)
SICK = ((seen(*_SHRUNK, steppers=_STRONG), curve(*STAYS, kind="SGD")),)
# A strong pull that learns; weights that grow; shrunk without decay.
WELL = (
    (seen(*_SHRUNK, steppers=_STRONG), curve(*FALLS, kind="SGD")),
    (seen(steppers=_STRONG), curve(*STAYS, kind="SGD")),
    (seen(*_SHRUNK), curve(*STAYS)),
)
