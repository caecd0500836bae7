"""The last activation keeps the model from ever giving what is asked of it.

Looks for:  a distance (squared, absolute) between targets and what a ReLU, sigmoid or tanh gave, where targets lie well
            outside of what it can give.
Matters:    those targets are never reached, and where the output is pinned no gradient comes back.
Try:        no activation on a regression's output, or targets scaled to its range.
Not this:   a ReLU before targets that are not negative; a tanh or sigmoid whose targets lie in its range.
"""

from typing import Any

from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, DISTANCES, NOTHING, call, first, judged, losses, traced, training, used
from netdyno.rules._remedies import remedy_at

RANGES = {
    "relu": (0.0, None),
    "relu_": (0.0, None),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hardtanh": (-1.0, 1.0),
    "softplus": (0.0, None),
    "relu6": (0.0, 6.0),
    "tanh_": (-1.0, 1.0),
    "sigmoid_": (0.0, 1.0),
    "abs": (0.0, None),
    "softmax": (0.0, 1.0),
}
# Targets reach so much of their own range beyond: a stray one or two per cent would be noise.
BEYOND = 0.1


@rule(stage="loss")
def clipped_output(losses: LossCalls, traces: CallTraces) -> Finding | None:
    trace = first(traces)
    for loss, made in judged(trace) if trace is not None else ():
        if loss.name not in DISTANCES or made.name not in RANGES:
            continue
        low, high = RANGES[made.name]
        for use in training(losses, loss.name):
            if use.where is None or loss.where is None or use.where.line != loss.where.line:
                continue
            if use.target_low is None or use.target_high is None:
                continue
            allowed = BEYOND * (use.target_high - use.target_low)
            below = low is not None and use.target_low < low - allowed
            above = high is not None and use.target_high > high + allowed
            if not below and not above:
                continue
            reach = f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
            return Finding(
                says=f"outputs come from a {made.name}, {reach}, but targets lie between {use.target_low:.3g} and {use.target_high:.3g}",
                layer="optimisation",
                saves=NOTHING,
                because={
                    "target_low": use.target_low,
                    "target_high": use.target_high,
                    "at_the_bound": max(use.at_low, use.at_high),
                },
                fix=f"take the last {made.name} away",
                where=made.where,
                confidence=CERTAIN,
                remedies=remedy_at(made.where, "leave-out", call=made.name),
            )
    return None


def _net(name: str) -> CallTraces:
    return traced(call("linear", -2, -1), call(name, 0), call("squeeze", 1), call("mse_loss", 2, -2, shape=(), line=40))


_WIDE: dict[str, Any] = {"target_low": -2.1, "target_high": 2.9, "classes": None}
SICK = ((losses(used("mse_loss", **_WIDE)), _net("relu")), (losses(used("mse_loss", **_WIDE)), _net("tanh")))
# Targets that are not negative; in the range of the tanh; no activation; classes.
WELL = (
    (losses(used("mse_loss", target_low=0.0, target_high=22.0)), _net("relu")),
    (losses(used("mse_loss", target_low=-1.0, target_high=1.0)), _net("tanh")),
    (losses(used("mse_loss", **_WIDE)), _net("linear")),
    (losses(used()), _net("relu")),
)
