"""A batch had no target left that counts, and the mean over nothing is no number.

Looks for:  a loss whose targets were all the ignored one, at the first loss that is no number.
Matters:    the mean of 0 targets is NaN, and the step that follows makes every weight NaN.
Try:        skip such batches, or divide the sum by at least 1.
Not this:   targets that are ignored in part, a loss that is guarded.
"""

from netdyno.records.calls import LossCalls, NonFinite
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING
from netdyno.rules._remedies import remedy


@rule(stage="loss")
def all_targets_ignored(broken: NonFinite, losses: LossCalls | None = None) -> Finding | None:
    if not broken.ignored:
        return None
    return Finding(
        says=f"in update {broken.update} all {broken.samples} targets of {broken.call} were ignored: the mean over 0 targets is no number",
        layer="optimisation",
        saves=NOTHING,
        because={"targets": float(broken.samples), "update": float(broken.update)},
        fix="skip batches without a target, or sum the loss and divide by at least 1",
        where=next((use.where for use in losses.losses if use.training and use.name == broken.call), broken.where)
        if losses is not None
        else broken.where,
        confidence=CERTAIN,
        remedies=remedy("skip-empty-targets"),
    )


SICK = ((NonFinite(stage="loss", update=12, ignored=True, samples=32, call="cross_entropy"),),)
# Lost for another reason.
WELL = ((NonFinite(stage="loss", update=12, call="mse_loss"),),)
