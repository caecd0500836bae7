"""Probabilities are shared out over the samples of a batch.

Looks for:  a softmax over the first dimension, as long as the batch, that the loss rests on; samples whose outputs then
            depend on the others in their batch, or a loss that is given it.
Matters:    what one sample gets, another one loses: outputs depend on who else is in the batch, and mean nothing alone.
Try:        the dimension of the classes, of time or of the keys: `dim=1` or `dim=-1`.
Not this:   a layout with time in front; a square of similarities, as in contrastive learning.
"""

from netdyno.records.calls import CallTraces, ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, FELT, NOTHING, call, dim_of, first, judged, probe, traced
from netdyno.rules._remedies import remedy_at


@rule(stage="loss")
def softmax_over_batch(traces: CallTraces, probe: ModelProbe | None = None) -> Finding | None:
    trace = first(traces)
    if trace is None or not trace.batch:
        return None
    led = trace.before(trace.root)
    given = {id(made) for _, made in judged(trace)}
    for at in sorted(led):
        made = trace.calls[at]
        if (
            made.name not in ("softmax", "log_softmax")
            or dim_of(made) != 0
            or made.shape[0] != trace.batch
            or trace.batch < 2
        ):
            continue
        if len(made.shape) < 2 or made.shape[1] == made.shape[0]:
            continue
        mixing = probe.mixing if probe is not None else None
        if id(made) not in given and (mixing or 0.0) < FELT:
            continue
        return Finding(
            says=f"a {made.name} runs over the {made.shape[0]} samples of the batch: outputs of a sample depend on the others"
            + (f" (they move by {mixing:.2g} standard deviations)" if mixing else ""),
            layer="optimisation",
            saves=NOTHING,
            because={"batch": float(trace.batch), "mixing": mixing or 0.0},
            fix="use the dimension of what competes: `dim=1` or `dim=-1`",
            where=made.where,
            confidence=CERTAIN,
            explains=("mixed-batch", "batch-dependent-output"),
            remedies=remedy_at(made.where, "change-call", call=made.name, dim=-1),
        )
    return None


_LINEAR = call("linear", -2, -1)
SICK = (
    (traced(_LINEAR, call("log_softmax", 0, settings={"dim": 0.0}), call("nll_loss", 1, -2, shape=())),),
    (
        traced(
            _LINEAR,
            call("softmax", 0, settings={"dim": 0.0}),
            call("mul", 1, 0),
            call("linear", 2, -1),
            call("cross_entropy", 3, -2, shape=()),
        ),
        probe(mixing=0.8),
    ),
)
# Over classes; time in front; a square of similarities; over the batch for a log only; nobody feels it.
WELL = (
    (traced(_LINEAR, call("log_softmax", 0, settings={"dim": 1.0}), call("nll_loss", 1, -2, shape=())),),
    (traced(call("softmax", -2, shape=(20, 64, 8), settings={"dim": 0.0}), call("cross_entropy", 0, -2, shape=())),),
    (traced(call("log_softmax", -2, shape=(64, 64), settings={"dim": 0.0}), call("nll_loss", 0, -2, shape=())),),
    (traced(_LINEAR, call("softmax", 0, settings={"dim": 0.0}), call("cross_entropy", 0, -2, shape=())),),
    (
        traced(
            _LINEAR,
            call("softmax", 0, settings={"dim": 0.0}),
            call("mul", 1, 0),
            call("cross_entropy", 2, -2, shape=()),
        ),
        probe(),
    ),
)
