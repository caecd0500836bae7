"""Attention scores are not divided by the root of their width, and one key takes everything.

Looks for:  a softmax over products of two activations without any scaling, or the library's attention with a scale of one's own
            above the usual one, whose scores are spread so widely at the start that about one key is left.
Matters:    a softmax that is pinned to one key passes no gradient: the model can't learn where to look.
Try:        divide the scores by the root of the heads' width.
Not this:   scaled scores, scaled queries, normalised keys, scores that are small enough without.
"""

from math import log

from netdyno.records.calls import CallTraces, Trace, TracedCall
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, call, first, traced
from netdyno.rules._remedies import remedy_at

SCALES = frozenset(["div", "__truediv__", "mul", "__mul__", "__rmul__", "normalize", "layer_norm", "rms_norm", "rsqrt"])
BETWEEN = frozenset(
    [
        "masked_fill",
        "masked_fill_",
        "where",
        "add",
        "__add__",
        "__radd__",
        "add_",
        "clone",
        "contiguous",
        "float",
        "to",
        "view",
        "reshape",
        "dropout",
    ]
)
FUSED, LARGER = "scaled_dot_product_attention", 1.5  # a little more than the usual scale is somebody's temperature


@rule(stage="structure")
def unscaled_attention(traces: CallTraces) -> Finding | None:
    trace = first(traces)
    if trace is None:
        return None
    led = trace.before(trace.root)
    for at in sorted(led):
        made = trace.calls[at]
        if made.name == FUSED and (found := _overscaled(trace, made)) is not None:
            return found
        product = _product(trace, at) if made.name == "softmax" and len(made.shape) >= 3 else None
        if product is None or product.std is None:
            continue
        keys = made.shape[-1]
        if not _alone(product.std, keys):
            continue
        width = product.shapes[0][-1]
        return Finding(
            says=f"attention scores over a width of {width} are not scaled: their deviation is {product.std:.2g} at the start, so that 1 or 2 of {keys} keys take all",
            layer="optimisation",
            saves=NOTHING,
            because={"deviation": product.std, "width": float(width), "keys": float(keys)},
            fix=f"divide the scores by the root of the width ({width} ** 0.5)",
            where=product.where,
            confidence=LIKELY,
            remedies=remedy_at(product.where, "scale-result", call=product.name, factor=width**-0.5),
        )
    return None


def _alone(deviation: float, keys: int) -> bool:
    """Whether about one key is left: of normally spread scores with deviation s, keys x exp(-s^2) share the weight."""
    return deviation**2 >= log(max(keys, 2) / 2)


def _overscaled(trace: Trace, made: TracedCall) -> Finding | None:
    """The library's attention with a scale of one's own that is above the usual one, where it pins the weights."""
    scale = made.settings.get("scale")
    if isinstance(scale, bool) or not isinstance(scale, float | int) or len(made.shapes) < 2:
        return None
    width, keys = made.shapes[0][-1], made.shapes[1][-2]
    origins = [trace.origin(one) for one in made.inputs[:2]]
    if scale <= LARGER * width**-0.5 or min(origins) < 0 or any(trace.calls[one].name in SCALES for one in origins):
        return None
    query, key = (trace.calls[one].std for one in made.inputs[:2])
    # Products of independent numbers: their deviations multiply, and sums over the width grow with its root.
    deviation = scale * (query or 0.0) * (key or 0.0) * width**0.5
    if not _alone(deviation, keys):
        return None
    return Finding(
        says=f"attention over a width of {width} is scaled by {scale:.3g} and not by {width**-0.5:.2g}: the deviation of its scores is "
        f"{deviation:.2g} at the start, so that 1 or 2 of {keys} keys take all",
        layer="optimisation",
        saves=NOTHING,
        because={"deviation": deviation, "width": float(width), "keys": float(keys)},
        fix="leave `scale` out: the root of the width is the default",
        where=made.where,
        confidence=LIKELY,
    )


def _product(trace: Trace, at: int) -> TracedCall | None:
    """The product of two activations that a softmax shares out, if nothing scales it."""
    number = trace.calls[at].inputs[0] if trace.calls[at].inputs else -1
    while number >= 0 and trace.calls[number].name in BETWEEN:
        number = trace.calls[number].inputs[0]
    if number < 0 or trace.calls[number].name not in ("matmul", "__matmul__", "bmm", "einsum"):
        return None
    made = trace.calls[number]
    origins = [trace.origin(one) for one in made.inputs]
    if min(origins) < 0 or any(trace.calls[one].name in SCALES for one in origins) or len(made.shapes) < 2:
        return None
    return made


def _attention(std: float, *between: TracedCall) -> CallTraces:
    product = call("matmul", 0, 1, shape=(64, 4, 40, 40), shapes=((64, 4, 40, 64), (64, 4, 64, 40)), std=std)
    last = 2 + len(between)
    return traced(
        call("linear", -2, -1),
        call("linear", -2, -1),
        product,
        *between,
        call("softmax", last, shape=(64, 4, 40, 40), settings={"dim": -1.0}),
        call("cross_entropy", last + 1, -2, shape=()),
    )


def _fused(std: float, **settings: float) -> CallTraces:
    shape = (64, 4, 40, 16)
    return traced(
        call("linear", -2, -1, shape=shape, std=std),
        call("linear", -2, -1, shape=shape, std=std),
        call(FUSED, 0, 1, 1, shape=shape, settings=dict(settings)),
        call("cross_entropy", 2, -2, shape=()),
    )


SICK = ((_attention(6.0),), (_attention(6.0, call("masked_fill", 2)),), (_fused(2.0, scale=1.0),))
# Scaled; small enough without; the library's with its own scale, and with another one that does no harm.
WELL = (
    (_attention(6.0, call("div", 2)),),
    (_attention(0.8),),
    (_fused(2.0),),
    (_fused(2.0, scale=0.25),),
    (_fused(0.4, scale=1.0),),
)
