"""The room's own machinery: how traces of calls are read, and the specimens of rules about calls and losses."""

from typing import Any

from netdyno.records.base import Place
from netdyno.records.calls import CallTraces, LossCalls, LossUse, ModelProbe, Trace, TracedCall
from netdyno.records.diagnosis import Saving

NOTHING = Saving(low=0.0, high=0.0)  # what is wrong costs quality, not time
CERTAIN, LIKELY, GUESS = 1.0, 0.8, 0.5
LOSSES = frozenset(
    [
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "gaussian_nll_loss",
        "poisson_nll_loss",
        "soft_margin_loss",
        "hinge_embedding_loss",
    ]
)
DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
# So much of the outputs' spread is no rounding: sums in another order differ by a hundred thousandth of it.
FELT = 0.01


def first(traces: CallTraces | None) -> Trace | None:
    """The first trace of which it is known where the backward pass began."""
    return next((one for one in traces.traces if one.root is not None), None) if traces is not None else None


def judged(trace: Trace) -> tuple[tuple[TracedCall, TracedCall], ...]:
    """Losses of the library that the backward pass rests on, each with the call that made what it judges."""
    led = trace.before(trace.root)
    pairs = []
    for at in sorted(led):
        call = trace.calls[at]
        if call.name in LOSSES and call.inputs:
            origin = trace.origin(call.inputs[0])
            if origin >= 0:
                pairs.append((call, trace.calls[origin]))
    return tuple(pairs)


def made_where(traces: CallTraces | None, name: str) -> Place | None:
    """The line that made what a loss judges, where one of the first trace is known."""
    trace = first(traces)
    pairs = judged(trace) if trace is not None else ()
    return next((made.where for call, made in pairs if call.name == name), None)


def where_of(traces: CallTraces | None, *names: str) -> Place | None:
    """The line of the first call of one of these functions on the way to the loss."""
    trace = first(traces)
    return next((call.where for call in trace.calls if call.name in names), None) if trace is not None else None


def dim_of(call: TracedCall) -> int | None:
    """The dimension that a softmax or a sum runs over, counted from the front."""
    dim = call.settings.get("dim")
    if dim is None and "softmax" in call.name:
        return 0 if len(call.shape) in (0, 1, 3) else 1  # what is taken without being told
    if not isinstance(dim, float | int) or isinstance(dim, bool) or not call.shapes:
        return None
    return int(dim) % max(1, len(call.shapes[0]))


def training(losses: LossCalls, *names: str) -> tuple[LossUse, ...]:
    """The uses of these losses that are trained on."""
    return tuple(use for use in losses.losses if use.training and use.name in names)


# specimens


def call(name: str, *inputs: int, shape: tuple[int, ...] = (64, 10), line: int = 30, **fields: Any) -> TracedCall:
    """A call in a specimen."""
    known: dict[str, Any] = {"shapes": tuple(shape for _ in inputs), "where": Place(file="train.py", line=line)}
    return TracedCall(name=name, inputs=inputs, shape=shape, **(known | fields))


def traced(*calls: TracedCall, root: int | None = None, batch: int = 64, optimizers: int = 1) -> CallTraces:
    """The trace of one update."""
    trace = Trace(update=1, calls=calls, root=len(calls) - 1 if root is None else root, batch=batch)
    return CallTraces(traces=(trace,), optimizers=optimizers)


def used(name: str = "cross_entropy", **fields: Any) -> LossUse:
    """A healthy use of a loss, changed."""
    known: dict[str, Any] = {
        "where": Place(file="train.py", line=40),
        "training": True,
        "times": 12,
        "input_shape": (64, 10),
        "target_shape": (64,),
        "input_low": -3.0,
        "input_high": 3.0,
        "target_low": 0.0,
        "target_high": 9.0,
        "unit_rows": 0.0,
        "log_rows": 0.0,
        "classes": 10,
        "first": 2.3,
        "last": 0.4,
    }
    return LossUse(name=name, **(known | fields))


def losses(*uses: LossUse, **fields: Any) -> LossCalls:
    """What losses were given."""
    return LossCalls(losses=uses, **({"passes": 12} | fields))


def probe(**fields: Any) -> ModelProbe:
    """A healthy model's answers, changed."""
    known: dict[str, Any] = {
        "model": "Net",
        "outputs": (32, 10),
        "repeat": 0.0,
        "mixing": 0.0,
        "linear": 1.5,
        "weighted": 3,
    }
    return ModelProbe(**(known | fields))
