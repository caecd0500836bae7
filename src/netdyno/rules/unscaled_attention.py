"""Attention scores are not divided by the root of their width, and one key takes everything.

Looks for:  a softmax over products of two activations without any scaling, whose scores are spread so widely at the start that
            about one key is left.
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


@rule(stage="structure")
def unscaled_attention(traces: CallTraces) -> Finding | None:
    trace = first(traces)
    if trace is None:
        return None
    led = trace.before(trace.root)
    for at in sorted(led):
        made = trace.calls[at]
        product = _product(trace, at) if made.name == "softmax" and len(made.shape) >= 3 else None
        if product is None or product.std is None:
            continue
        keys = made.shape[-1]
        # Of normally spread scores with deviation s so many keys share the weight: keys x exp(-s^2).
        if product.std**2 < log(max(keys, 2) / 2):
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


SICK = ((_attention(6.0),), (_attention(6.0, call("masked_fill", 2)),))
# Scaled; small enough without.
WELL = ((_attention(6.0, call("div", 2)),), (_attention(0.8),))
