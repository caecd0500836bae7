"""Units between layers sit at the ends of their range, where hardly a gradient passes.

Looks for:  a tanh or sigmoid between layers whose mean slope over a batch is a twentieth of its slope at zero, with values at
            both ends, from the first update to the last that was traced.
Matters:    the layers before it get a twentieth of the gradient, and learn next to nothing.
Try:        inputs of a standard deviation near 1, smaller initial weights, or a normalisation before the activation.
Not this:   outputs, which are at the ends because they are sure; gates that begin closed, which are all at one end; units
            that saturate as they learn.
"""

from netdyno.records.calls import BENDS, DATA, MOVES, CallTraces, Trace, TracedCall
from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.records.scores import Scores
from netdyno.rules._base import rule
from netdyno.rules._calls import NOTHING, call
from netdyno.rules._samples import healthy

# name: slope at zero, and the standard deviation of values of which half are at either end
ENDS = {"tanh": (1.0, 1.0), "tanh_": (1.0, 1.0), "sigmoid": (0.25, 0.5), "sigmoid_": (0.25, 0.5)}
# Standardised values through a tanh keep six tenths of the slope, values with a deviation of 3 still a quarter.
LEFT = 0.05
# A closed gate has all its values at one end: these have them at both.
BOTH = 0.6
FINE = 0.95
# Layers are initialised for inputs of size 1: at ten times that, what pins the units is known.
LARGE = 10.0
BETWEEN = ("linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "addmm", "bmm", "__matmul__")


@rule(stage="dynamics")
def saturated_units(traces: CallTraces, scores: Scores | None, samples: Samples | None = None) -> Finding | None:
    found = [_worst(trace) for trace in traces.traces]
    if len(found) < 2 or any(one is None for one in found):
        return None
    first, last = found[0], found[-1]
    assert first is not None
    assert last is not None
    slope = max(_slope(first), _slope(last))
    learns = scores is not None and scores.measure != "loss" and (scores.train_last or 0.0) >= FINE
    size = _size(traces.traces[0], first, samples)
    given = f", which is given inputs of a size of {size:.3g} instead of about 1" if size else ""
    return Finding(
        says=f"units of a {first.name} are at the ends of their range from the first update on: {slope:.1%} of its slope is left, so that"
        f" hardly a gradient reaches the layer before it{given}",
        layer="optimisation",
        saves=NOTHING,
        because={
            "slope_first": _slope(first),
            "slope_last": _slope(last),
            "spread": first.std or 0.0,
            "input_rms": size or 0.0,
        },
        fix="scale the inputs to a standard deviation of 1, or begin with smaller weights",
        where=first.where,
        # What is learnt all the same may do without the layers before; nobody pins units by unscaled inputs on purpose.
        confidence=0.5 if learns and not size else 0.75,
    )


def _worst(trace: Trace) -> TracedCall | None:
    """The activation between layers that is saturated the most, if one is."""
    led = trace.before(trace.root)
    hit = [
        one
        for at, one in enumerate(trace.calls)
        if at in led and one.name in ENDS and one.std is not None and _before(trace, one) and _behind(trace, at)
        if one.std >= BOTH * ENDS[one.name][1] and _slope(one) <= LEFT
    ]
    return min(hit, key=_slope, default=None)


def _size(trace: Trace, one: TracedCall, samples: Samples | None) -> float | None:
    """How large the inputs are, where they are too large and the layer below these units is given them as they are."""
    if samples is None or not samples.floating or samples.rms is None or samples.rms < LARGE:
        return None
    layer = trace.calls[trace.origin(one.inputs[0])]
    return samples.rms if layer.inputs and trace.origin(layer.inputs[0]) == DATA else None


def _slope(one: TracedCall) -> float:
    """What is left of the slope at zero, on average; it is a function of the values' first two moments."""
    mean, square = one.mean or 0.0, (one.mean or 0.0) ** 2 + (one.std or 0.0) ** 2
    return max(0.0, 1 - square) if one.name.startswith("tanh") else max(0.0, mean - square) / ENDS[one.name][0]


def _before(trace: Trace, one: TracedCall) -> bool:
    """Whether a layer made what it is given."""
    made = trace.origin(one.inputs[0]) if one.inputs else -1
    return made >= 0 and trace.calls[made].name in BETWEEN


def _behind(trace: Trace, at: int) -> bool:
    """Whether another layer takes it."""
    left, seen = [at], set[int]()
    while left:
        for user in trace.users(left.pop()):
            name = trace.calls[user].name
            if name in BETWEEN:
                return True
            if user not in seen and (name in MOVES or name in BENDS or "dropout" in name):
                seen.add(user)
                left.append(user)
    return False


def _traces(name: str, *moments: tuple[float, float], behind: str = "linear") -> CallTraces:
    traces = tuple(
        Trace(
            update=update,
            calls=(call("linear", -2, -1), call(name, 0, mean=mean, std=std), call("dropout", 1), call(behind, 2, -1),
                   call("cross_entropy", 3, -2, shape=())),
            root=4,
        )
        for update, (mean, std) in enumerate(moments, 1)
    )  # fmt: skip
    return CallTraces(traces=traces)


_LOW = Scores(measure="accuracy", train_first=0.1, train_last=0.6)
SICK = (
    (_traces("tanh", (0.02, 0.99), (0.03, 0.985)), _LOW),
    (_traces("sigmoid", (0.5, 0.498), (0.49, 0.497)), _LOW),
    (
        _traces("tanh", (0.02, 0.99), (0.03, 0.985)),
        Scores(measure="accuracy", train_first=0.4, train_last=0.97),
        healthy(rms=50.0),
    ),
)
# Standardised values; a gate that begins closed; an output; saturated only in the end; a single look.
WELL = (
    (_traces("tanh", (0.0, 0.6), (0.0, 0.7)), _LOW),
    (_traces("sigmoid", (0.01, 0.02), (0.01, 0.02)), _LOW),
    (_traces("tanh", (0.02, 0.99), (0.03, 0.985), behind="mul"), _LOW),
    (_traces("tanh", (0.0, 0.6), (0.03, 0.985)), _LOW),
    (_traces("tanh", (0.02, 0.99)), _LOW),
)
