"""Attention is told nothing of where a token stands.

Looks for:  a language model of attention alone, whose tokens get no embedding, sine, rotation or bias of their position.
Matters:    without positions a text is a bag of words: order can only be guessed from the mask.
Try:        add a position embedding to the token embedding.
Not this:   recurrent or convolutional layers, bags on purpose, learned, sinusoidal or rotary positions, biases of scores.
"""

from netdyno.records.calls import CallTraces, LossCalls, ModelProbe, Trace, TracedCall
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, call, first, losses, probe, traced, training, used

TELLS = frozenset(
    ["arange", "sin", "cos", "polar", "cumsum", "lstm", "gru", "rnn_tanh", "rnn_relu", "conv1d", "linspace"]
)
ADDS = frozenset(("add", "__add__", "__radd__", "add_", "__iadd__"))


@rule(stage="structure")
def missing_positions(losses: LossCalls, traces: CallTraces, probe: ModelProbe) -> Finding | None:
    trace = first(traces)
    if trace is None or trace.missed or not probe.attention or probe.recurrent:
        return None
    if not any(use.shifted == "next" for use in training(losses, "cross_entropy", "nll_loss")):
        return None
    embeddings = [made for made in trace.calls if made.name == "embedding"]
    if len(embeddings) != 1 or any(made.name in TELLS for made in trace.calls):
        return None
    if any(made.name in ADDS and len(made.inputs) == 2 and _from_outside(trace, made) for made in trace.calls):
        return None
    length = embeddings[0].shape[1] if len(embeddings[0].shape) > 1 else 0
    return Finding(
        says=f"`{probe.model}` has attention over {length} tokens and tells it no position: their order is lost",
        layer="optimisation",
        saves=NOTHING,
        because={"tokens": float(length), "embeddings": 1.0},
        fix="add a position embedding to the token embedding",
        where=embeddings[0].where,
        confidence=LIKELY,
        explains=("unreached-parameters",),  # the positions that are there and not added
    )


def _from_outside(trace: Trace, made: TracedCall) -> bool:
    return any(trace.origin(one) < 0 for one in made.inputs) and len(made.shape) > 1


_NEXT = losses(used(shifted="next"))
_BARE = (
    call("embedding", -1, -2, shape=(64, 40, 32)),
    call("scaled_dot_product_attention", 0, 0, 0),
    call("cross_entropy", 1, -2, shape=()),
)
_WITH = (
    _BARE[0],
    call("add", 0, -1, shape=(64, 40, 32)),
    call("scaled_dot_product_attention", 1, 1, 1),
    call("cross_entropy", 2, -2, shape=()),
)
_ASKED = probe(attention=True)
SICK = ((_NEXT, traced(*_BARE), _ASKED),)
# Learned positions; an embedding of positions; a bag on purpose; a recurrent layer.
WELL = (
    (_NEXT, traced(*_WITH), _ASKED),
    (_NEXT, traced(call("embedding", -1, -2), *_BARE), _ASKED),
    (losses(used()), traced(*_BARE), _ASKED),
    (_NEXT, traced(*_BARE), probe(attention=True, recurrent=True)),
)
