"""The optimizer holds parameters that the model does not have: it moves something that nobody uses.

Looks for:  an optimizer whose parameters are in no model that was called, while the model that trains gets gradients that
            no optimizer holds.
Matters:    the step runs, and the weights never change: a model that was built, replaced or copied after the optimizer.
Try:        build the optimizer after the model has its last form.
Not this:   a frozen part, weights that one optimizer of several holds, or a layer in a plain list (see `hidden-parameters`).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen, stepper, weight
from netdyno.rules._remedies import remedy

LOOKS = 3  # one look may meet an optimizer before its model was called


@rule(suggests=(), stage="structure")
def stale_optimizer(gradients: Gradients) -> Finding | None:
    stale = [
        one
        for one in gradients.steppers
        if one.strange and not one.strange_graded and one.looks >= LOOKS and _missing(gradients, one.index)
    ]
    if not stale or not gradients.homeless_count:
        return None
    worst = max(stale, key=lambda one: one.strange)
    return Finding(
        says=f"{worst.strange} of the {worst.parameters} parameters of the optimizer are not in the model that trains, and"
        f" {gradients.homeless_count} of the model's get gradients that no optimizer applies: the model was replaced after"
        f" the optimizer was built",
        layer="optimisation",
        saves=NOTHING,
        because={
            "strange": float(worst.strange),
            "held": float(worst.parameters),
            "unmoved": float(gradients.homeless_count),
        },
        fix="build the optimizer after the model is complete (and after any copy, `.to` or new head)",
        where=gradients.optimizer_where,
        confidence=1.0,  # identities, not sizes
        remedies=remedy("train-everything"),
    )


def _missing(gradients: Gradients, index: int) -> bool:
    """Whether some parameters of this optimizer never had a gradient."""
    return any(one.optimizer == index and one.looks and one.missing == one.looks for one in gradients.weights)


_LOST = weight(gradient=None, missing=12, ratio=None, moved=0.0)
# All of it is another model's; only a head was exchanged.
SICK = (
    (seen(_LOST, steppers=(stepper(strange=6),), homeless=("fc1.weight",), homeless_count=6),),
    (seen(weight(), _LOST, steppers=(stepper(strange=2),), homeless=("head.weight",), homeless_count=2),),
)
# All known; a part that no optimizer moves (a frozen intention); weights that are held in a list and handed over.
WELL = (
    (seen(),),
    (seen(homeless=("backbone.weight",), homeless_count=9),),
    (seen(steppers=(stepper(strange=4, strange_graded=4),), homeless=("backbone.weight",), homeless_count=1),),
)
