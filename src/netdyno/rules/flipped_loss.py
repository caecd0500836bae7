"""The loss is maximised: its sign was turned before the backward pass.

Looks for:  a loss that cannot be negative, negated on its way to the backward pass, with one optimizer, and rising.
Matters:    each update makes the model worse, for as long as it runs.
Try:        take the minus sign away.
Not this:   a generator, an adversary or a reward, which have a second player or no such loss; a term beside others.
"""

from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, LOSSES, NOTHING, call, first, losses, traced, training, used
from netdyno.rules._remedies import remedy

ROSE = 1.2  # times its start: a training loss that rises by a fifth is being maximised


@rule(stage="loss")
def flipped_loss(losses: LossCalls, traces: CallTraces) -> Finding | None:
    trace = first(traces)
    if trace is None or traces.optimizers > 1 or trace.root is None:
        return None
    at, sign = trace.root, 1
    while at >= 0 and trace.calls[at].name not in LOSSES:
        made = trace.calls[at]
        if len([one for one in made.inputs if one >= 0]) != 1:
            return None
        factor = made.settings.get("other")
        if (
            made.name == "neg"
            or (made.name in ("mul", "__mul__", "__rmul__", "div") and isinstance(factor, float) and factor < 0)
            or made.name in ("rsub", "__rsub__")
        ):
            sign = -sign
        at = next(one for one in made.inputs if one >= 0)
    if at < 0 or sign > 0:
        return None
    loss = trace.calls[at]
    for use in training(losses, loss.name):
        if use.first is not None and use.last is not None and use.first > 0 and use.last > ROSE * use.first:
            return Finding(
                says=f"{use.name} is negated before the backward pass, and rises: from {use.first:.3g} to {use.last:.3g}",
                layer="optimisation",
                saves=NOTHING,
                because={"first": use.first, "last": use.last},
                fix="take the minus sign away: the optimizer minimises",
                where=trace.calls[trace.root].where,
                confidence=CERTAIN,
                explains=("exploding-learning-rate",),
                remedies=remedy("negate-loss"),
            )
    return None


_FLIPPED = (call("linear", -2, -1), call("cross_entropy", 0, -2, shape=()), call("neg", 1, shape=()))
SICK = ((losses(used(last=95.0)), traced(*_FLIPPED)),)
# Not negated; a second player; one that falls all the same (the author maximises).
WELL = (
    (losses(used(last=95.0)), traced(*_FLIPPED[:2])),
    (losses(used(last=95.0)), traced(*_FLIPPED, optimizers=2)),
    (losses(used()), traced(*_FLIPPED)),
)
