"""Layers follow each other with nothing between that bends: together they are one linear layer.

Looks for:  a trained model of two or more layers whose answer to a + b - c is the sum of its answers, and in whose traced
            updates nothing that bends was called on the way to the loss.
Matters:    it can draw straight lines only, however many layers it has.
Try:        a ReLU (or another activation) between the layers.
Not this:   a single linear layer; a bottleneck on purpose (a factorised layer, a linear code); a network that became straight
            because its units died or its weights blew up.
"""

from netdyno.records.base import Place
from netdyno.records.calls import MOVES, CallTraces, ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, call, first, probe, traced
from netdyno.rules._remedies import remedy

GUESS = 0.5  # of a network of which no forward pass was traced
# What keeps sums straight: products with weights, sums, moves, means, and normalising with fixed statistics. All else may bend.
STRAIGHT_CALLS = frozenset((
    "linear", "matmul", "mm", "bmm", "addmm", "einsum", "conv1d", "conv2d", "conv3d", "add", "sub", "rsub", "mean", "sum",
    "embedding", "dropout", "mul", "div", "true_divide", "avg_pool2d", "adaptive_avg_pool2d", "interpolate", "pad", "cat",
    "stack",
))  # fmt: skip
STRAIGHT = 1e-3  # of the outputs' spread: rounding of a deep sum, and nothing that bends


@rule(stage="structure")
def linear_network(probe: ModelProbe, traces: CallTraces | None) -> Finding | None:
    if probe.linear is None or probe.linear > STRAIGHT or probe.weighted < 2 or probe.narrow:
        return None
    bends = _bends(traces)
    if bends:
        return None
    return Finding(
        says=f"the {probe.weighted} layers of `{probe.model}` are together one linear function: nothing between them bends",
        layer="optimisation",
        saves=NOTHING,
        because={"layers": float(probe.weighted), "deviation": probe.linear},
        fix="put an activation (ReLU, GELU) between the layers",
        where=Place(module=probe.model),
        confidence=LIKELY if bends is False else GUESS,
        remedies=remedy("bend-between-layers"),
    )


def _bends(traces: CallTraces | None) -> bool | None:
    """Whether something between the first and the last layer bends, by what was called; None when nothing was traced."""
    trace = first(traces)
    if trace is None:
        return None
    layers = [
        at
        for at, each in enumerate(trace.calls)
        if each.name in ("linear", "conv1d", "conv2d", "conv3d", "matmul", "addmm")
    ]
    if len(layers) < 2:
        return None
    between = trace.calls[layers[0] : layers[-1]]
    return any(each.name not in STRAIGHT_CALLS and each.name not in MOVES for each in between)


_STRAIGHT = traced(call("linear", -2), call("linear", 0), call("cross_entropy", 1))
_DIED = traced(call("linear", -2), call("relu", 0), call("linear", 1), call("cross_entropy", 2))
SICK = ((probe(linear=2e-6), _STRAIGHT), (probe(linear=2e-6),))
# It bends; its units died; one layer; a bottleneck on purpose; it could not be asked.
WELL = (
    (probe(),),
    (probe(linear=2e-6), _DIED),
    (probe(linear=2e-6, weighted=1),),
    (probe(linear=2e-6, narrow=True),),
    (probe(linear=None),),
)
