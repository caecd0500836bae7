"""A loss that takes logits is given probabilities.

Looks for:  rows of a cross-entropy's input that are not negative and sum to 1.
Matters:    the loss applies its own softmax: probabilities between 0 and 1 become nearly equal, and gradients small.
Try:        take the last softmax away; keep it for what is shown to people.
Not this:   log_softmax before the loss, which changes nothing; a softmax for attention or for what is logged.
"""

from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, losses, made_where, training, used
from netdyno.rules._remedies import remedy

ALL = 0.99  # of the rows of every look; a row of logits sums to 1 by chance only


@rule(stage="loss")
def double_softmax(losses: LossCalls, traces: CallTraces | None = None) -> Finding | None:
    for use in training(losses, "cross_entropy"):
        if (use.unit_rows or 0.0) >= ALL and use.classes:
            return Finding(
                says=f"cross_entropy is given probabilities: each row of its {use.classes} inputs sums to 1, and it applies a second softmax",
                layer="optimisation",
                saves=NOTHING,
                because={"rows_that_sum_to_one": use.unit_rows or 0.0, "classes": float(use.classes)},
                fix="give cross_entropy the raw outputs: take away the softmax before it",
                where=made_where(traces, use.name) or use.where,
                confidence=CERTAIN,
                remedies=remedy("take-logarithm", call="cross_entropy", of="probabilities"),
            )
    return None


SICK = ((losses(used(unit_rows=1.0, input_low=0.0, input_high=0.9)),),)
# Logits; log-probabilities; probabilities in evaluation only.
WELL = (
    (losses(used()),),
    (losses(used(log_rows=1.0, input_high=0.0)),),
    (losses(used(unit_rows=1.0, training=False)),),
)
