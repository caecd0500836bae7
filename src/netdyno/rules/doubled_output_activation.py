"""A sigmoid or softmax is applied to what has passed one already.

Looks for:  evaluation outputs that are shares, and the same function applied to them once more.
Matters:    scores are pressed together: no sigmoid of a share is below 0.5, and thresholds and confidences mean nothing.
Try:        one of both: the model gives logits, or the caller takes its shares as they are.
Not this:   attention weights or gates within a model; logits.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import Doubled, ShippingUse
from netdyno.rules._base import rule

# Once might be a look by hand; the form is wrong all the same.
OFTEN = 2
# Scores must differ: a model that is unsure of everything has none to lose.
PRESSED = 0.02


@rule(stage="use")
def doubled_output_activation(use: ShippingUse) -> Finding | None:
    worst = max(
        (one for one in use.doubled if one.before - one.after > PRESSED),
        key=lambda one: one.times,
        default=None,
    )
    if worst is None:
        return None
    return Finding(
        says=f"a {worst.function} is applied to the output of a {worst.function}, {worst.times} times: the mean largest score falls from {worst.before:.2f} to {worst.after:.2f}",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={"times": float(worst.times), "score_before": worst.before, "score_after": worst.after},
        fix=f"leave out the second {worst.function}: the model's output has passed one already",
        where=worst.where,
        confidence=0.95 if worst.times >= OFTEN else 0.75,
    )


def _use(times: int = 8, before: float = 0.97, after: float = 0.22) -> ShippingUse:
    return ShippingUse(
        doubled=(
            Doubled(function="softmax", times=times, before=before, after=after, where=Place(file="serve.py", line=51)),
        )
    )


# Again and again; once.
SICK = ((_use(),), (_use(times=1),))
# No effect; nothing of the kind.
WELL = ((_use(before=0.2, after=0.19),), (ShippingUse(),))
