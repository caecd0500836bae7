"""A summed loss makes steps as many times larger as the batch has samples, and training does not get on.

Looks for:  `reduction="sum"` in a loss that is trained on, and a loss that did not fall.
Matters:    gradient and step grow with the batch; a learning rate that suits a mean is far too large.
Try:        the mean over samples, or a learning rate divided by the size of the batch.
Not this:   a sum whose learning rate was tuned for it, which learns; a sum that is divided afterwards.
"""

from netdyno.records.calls import CallTraces, LossCalls, NonFinite
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import LossCurve
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, LOSSES, NOTHING, call, first, losses, traced, training, used
from netdyno.rules._learning import UPDATES, diverged, ends, learns_little, longest
from netdyno.rules._learning import curve as falling
from netdyno.rules._remedies import remedy


@rule(stage="loss")
def summed_loss(
    losses: LossCalls, traces: CallTraces, curve: LossCurve, broken: NonFinite | None = None
) -> Finding | None:
    trace, whole = first(traces), longest(curve)
    lost = broken is not None and broken.persists
    if trace is None or whole is None:
        return None
    if not lost and not learns_little(whole, None) and not (diverged(whole) and whole.updates >= UPDATES):
        return None
    root = trace.calls[trace.root] if trace.root is not None else None
    for use in training(losses, *LOSSES):
        samples = use.input_shape[0] if use.input_shape else 1
        if use.reduction != "sum" or samples < 2 or root is None or root.name != use.name or use.first is None:
            continue  # what is done to the sum afterwards may be a division
        became = "was no number" if lost else f"was {ends(whole).last:.3g}"
        return Finding(
            says=f"{use.name} is summed over {samples} samples: it began at {use.first:.3g} and {became} in the end",
            layer="optimisation",
            saves=NOTHING,
            because={"samples": float(samples), "first": use.first},
            fix='take the mean (`reduction="mean"`), or divide the learning rate by the size of the batch',
            where=use.where,
            confidence=LIKELY,
            explains=("exploding-learning-rate",),
            remedies=remedy("divide-loss", by=samples),
        )
    return None


_RISES, _FALLS = falling(147.0, 160.0, 900.0, 800.0, 900.0), falling(147.0, 90.0, 40.0, 21.0, 20.0)
_TRACE = traced(call("linear", -2, -1), call("cross_entropy", 0, -2, shape=()))
SICK = (
    (losses(used(reduction="sum", first=147.0)), _TRACE, _RISES),
    (
        losses(used(reduction="sum", first=147.0)),
        _TRACE,
        falling(147.0, updates=9),
        NonFinite(stage="forward", update=9),
    ),
)
# A sum that learns; a mean that does not; a sum that is divided afterwards.
WELL = (
    (losses(used(reduction="sum", first=147.0)), _TRACE, _FALLS),
    (losses(used()), _TRACE, _RISES),
    (
        losses(used(reduction="sum")),
        traced(call("linear", -2, -1), call("cross_entropy", 0, -2, shape=()), call("div", 1, shape=())),
        _RISES,
    ),
)
