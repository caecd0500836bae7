"""A loss that takes logits is given what a sigmoid made.

Looks for:  binary cross-entropy with logits whose input a sigmoid (or a softmax) gave.
Matters:    the loss applies its own sigmoid: what it sees lies between 0.5 and 0.73, and gradients shrink to a quarter.
Try:        raw outputs for the loss with logits, or binary_cross_entropy on the sigmoid.
Not this:   logits that happen to lie between 0 and 1; a sigmoid for what is logged.
"""

from netdyno.records.calls import CallTraces
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, call, first, judged, traced
from netdyno.rules._remedies import remedy_at


@rule(stage="loss")
def double_sigmoid(traces: CallTraces) -> Finding | None:
    trace = first(traces)
    for loss, made in judged(trace) if trace is not None else ():
        if loss.name == "binary_cross_entropy_with_logits" and made.name in ("sigmoid", "sigmoid_", "softmax"):
            line = "" if made.where is None else f" of line {made.where.line}"
            return Finding(
                says=f"binary_cross_entropy_with_logits is given what the {made.name}{line} made, and applies 1 more",
                layer="optimisation",
                saves=NOTHING,
                because={"lowest_input": made.low or 0.0, "highest_input": made.high or 0.0},
                fix=f"give the loss the raw outputs: take away the {made.name} before it",
                where=made.where,
                confidence=CERTAIN,
                remedies=remedy_at(made.where, "leave-out", call=made.name),
            )
    return None


SICK = (
    (
        traced(
            call("linear", -2, -1),
            call("sigmoid", 0, low=0.3, high=0.7),
            call("squeeze", 1),
            call("binary_cross_entropy_with_logits", 2, -2, shape=()),
        ),
    ),
)
# Logits; a sigmoid with the loss that takes it; one beside the loss.
WELL = (
    (traced(call("linear", -2, -1), call("binary_cross_entropy_with_logits", 0, -2, shape=())),),
    (traced(call("linear", -2, -1), call("sigmoid", 0), call("binary_cross_entropy", 1, -2, shape=())),),
    (traced(call("linear", -2, -1), call("sigmoid", 0), call("binary_cross_entropy_with_logits", 0, -2, shape=())),),
)
