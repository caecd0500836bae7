"""A softmax over a single unit always gives 1.

Looks for:  a softmax over a dimension of length 1 that the loss is given, also through a logarithm.
Matters:    whatever the model says, the answer is 1, and no gradient reaches it.
Try:        a sigmoid for one unit (or the loss with logits), or one unit per class.
Not this:   attention to a single key.
"""

from netdyno.records.calls import CallTraces
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, call, dim_of, first, traced
from netdyno.rules._remedies import remedy_at


@rule(stage="loss")
def constant_softmax(traces: CallTraces) -> Finding | None:
    trace = first(traces)
    if trace is None:
        return None
    led = trace.before(trace.root)
    for at in sorted(led):
        made = trace.calls[at]
        dim = dim_of(made) if made.name in ("softmax", "log_softmax") else None
        if dim is None or not made.shape or made.shape[dim] != 1 or made.shape[0] < 2:
            continue
        if any(
            trace.calls[user].name in ("matmul", "bmm", "einsum", "mul", "__mul__", "baddbmm")
            for user in trace.users(at)
        ):
            continue  # weights of an attention with one key
        return Finding(
            says=f"a {made.name} runs over 1 unit: it gives the same for every one of {made.shape[0]} samples",
            layer="optimisation",
            saves=NOTHING,
            because={"units": 1.0, "samples": float(made.shape[0])},
            fix="use a sigmoid (binary_cross_entropy_with_logits) for one unit, or one unit per class",
            where=made.where,
            confidence=CERTAIN,
            remedies=remedy_at(made.where, "call-instead", call="softmax", instead="sigmoid"),
        )
    return None


SICK = (
    (
        traced(
            call("linear", -2, -1, shape=(64, 1)),
            call("softmax", 0, shape=(64, 1), settings={"dim": 1.0}),
            call("binary_cross_entropy", 1, -2, shape=()),
        ),
    ),
)
# Two units; attention to a single key; beside the loss.
WELL = (
    (traced(call("softmax", -2, shape=(64, 2), settings={"dim": 1.0}), call("nll_loss", 0, -2, shape=())),),
    (
        traced(
            call("softmax", -2, shape=(64, 1), settings={"dim": 1.0}),
            call("matmul", 0, -2),
            call("cross_entropy", 1, -2, shape=()),
        ),
    ),
    (
        traced(
            call("linear", -2, -1),
            call("softmax", 0, shape=(64, 1), settings={"dim": 1.0}),
            call("cross_entropy", 0, -2, shape=()),
        ),
    ),
)
