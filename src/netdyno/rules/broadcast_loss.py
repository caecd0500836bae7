"""Output and target have different shapes, and the loss compares each of one with each of the other.

Looks for:  a distance between shapes like (N, 1) and (N,) that spread to (N, N), in a loss or in a difference by hand.
Matters:    every prediction is pulled to the mean of all targets; the loss falls to their variance and stays.
Try:        `output.squeeze(1)` or `target.unsqueeze(1)`.
Not this:   shapes that are equal, a target that is one number, pairs that are meant (both with a dimension of their own).
"""

from math import prod

from netdyno.records.base import Place
from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import (
    CERTAIN,
    DISTANCES,
    LIKELY,
    NOTHING,
    call,
    first,
    losses,
    made_where,
    traced,
    training,
    used,
)
from netdyno.rules._remedies import remedy


@rule(stage="loss")
def broadcast_loss(losses: LossCalls, traces: CallTraces | None = None) -> Finding | None:
    for use in training(losses, *DISTANCES):
        if _spreads(use.input_shape, use.target_shape):
            return _finding(
                use.input_shape, use.target_shape, use.name, made_where(traces, use.name) or use.where, CERTAIN
            )
    trace = first(traces)
    led = trace.before(trace.root) if trace is not None else ()
    for at in sorted(led):
        made = trace.calls[at] if trace is not None else None
        if made is None or made.name not in ("sub", "__sub__", "rsub", "__rsub__") or len(made.shapes) != 2:
            continue
        one, other = made.shapes
        if (
            trace is not None
            and -2 in (origins := [trace.origin(each) for each in made.inputs])
            and max(origins) >= 0
            and {len(one), len(other)} == {1, 2}
            and _spreads(one, other)
        ):
            return _finding(one, other, "a difference", made.where, LIKELY)
    return None


def _spreads(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if one == other or not one or not other:
        return False
    wide = max(len(one), len(other))
    pairs = zip((1,) * (wide - len(one)) + one, (1,) * (wide - len(other)) + other, strict=True)
    together = prod(max(pair) for pair in pairs)
    return together > max(prod(one), prod(other))


def _finding(
    one: tuple[int, ...], other: tuple[int, ...], name: str, where: Place | None, confidence: float
) -> Finding:
    return Finding(
        says=f"{name} of shapes {one} and {other} compares each output with each target: {prod(one)} x {prod(other)} pairs",
        layer="optimisation",
        saves=NOTHING,
        because={"outputs": float(prod(one)), "targets": float(prod(other))},
        fix="give both the same shape: `output.squeeze(1)` or `target.unsqueeze(1)`",
        where=where,
        confidence=confidence,
        remedies=remedy("match-shapes"),
    )


def _by_hand(other: tuple[int, ...]) -> CallTraces:
    minus = call("sub", 0, -2, shape=(64, 64), shapes=((64, 1), other))
    return traced(call("linear", -2, -1, shape=(64, 1)), minus, call("pow", 1), call("mean", 2, shape=()))


SICK = (
    (losses(used("mse_loss", input_shape=(64, 1), target_shape=(64,))),),
    (losses(), _by_hand((64,))),
)
# Equal; one number; a batch of one; pairs that are meant.
WELL = (
    (losses(used("mse_loss", input_shape=(64, 1), target_shape=(64, 1))),),
    (losses(used("mse_loss", input_shape=(64,), target_shape=(1,))),),
    (losses(used("mse_loss", input_shape=(1, 1), target_shape=(1,))),),
    (losses(), _by_hand((1, 64))),
)
