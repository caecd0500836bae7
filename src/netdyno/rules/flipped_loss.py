"""The loss is maximised: its sign was turned before the backward pass.

Looks for:  a loss that cannot be negative, negated on its way to the backward pass, with one optimizer, and rising.
Matters:    each update makes the model worse, for as long as it runs.
Try:        take the minus sign away.
Not this:   a generator, an adversary or a reward, which have a second player or no such loss; a term beside others.
"""

from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import LossCurve
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, LOSSES, NOTHING, call, first, losses, traced, training, used
from netdyno.rules._learning import UPDATES, ends, longest
from netdyno.rules._learning import curve as falling
from netdyno.rules._remedies import remedy

ROSE = 1.2  # times its start: a training loss that rises by a fifth is being maximised
NOISE = 3.0  # and by so many times as far as it wavers in the end


@rule(stage="loss")
def flipped_loss(losses: LossCalls, traces: CallTraces, curve: LossCurve) -> Finding | None:
    trace, whole = first(traces), longest(curve)
    if trace is None or whole is None or whole.updates < UPDATES or traces.optimizers > 1 or trace.root is None:
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
    # What is handed back is the negated loss: it goes down.
    began, ended = -ends(whole).start, -ends(whole).last
    for use in training(losses, loss.name):
        if began > 0 and ended > ROSE * began and ended - began > NOISE * min(ends(whole).noise, ended / 4):
            return Finding(
                says=f"{use.name} is negated before the backward pass, and rises: from {began:.3g} to {ended:.3g}",
                layer="optimisation",
                saves=NOTHING,
                because={"first": began, "last": ended},
                fix="take the minus sign away: the optimizer minimises",
                where=trace.calls[trace.root].where,
                confidence=CERTAIN,
                explains=("exploding-learning-rate",),
                remedies=remedy("negate-loss"),
            )
    return None


_FLIPPED = (call("linear", -2, -1), call("cross_entropy", 0, -2, shape=()), call("neg", 1, shape=()))
_DOWN, _UP = falling(-2.3, -9.0, -40.0, -90.0, -95.0), falling(-2.3, -1.0, -0.5, -0.4, -0.4)
SICK = ((losses(used()), traced(*_FLIPPED), _DOWN),)
# Not negated; a second player; one that falls all the same (the author maximises).
WELL = (
    (losses(used()), traced(*_FLIPPED[:2]), _DOWN),
    (losses(used()), traced(*_FLIPPED, optimizers=2), _DOWN),
    (losses(used()), traced(*_FLIPPED), _UP),
)
