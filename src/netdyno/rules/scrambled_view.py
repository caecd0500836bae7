"""A view changes the order of axes by name only: values land in places where they don't belong.

Looks for:  a `view` or `reshape` whose result has the same axes in another order (as H, W, C and C, H, W), read by a
            convolution or a recurrent layer.
Matters:    neighbours are torn apart and channels are mixed: what is left to learn from is noise.
Try:        `permute` or `transpose` instead.
Not this:   axes of length 1, flattening, heads that are split or merged.
"""

from netdyno.records.calls import CallTraces
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import GUESS, LIKELY, NOTHING, call, first, traced
from netdyno.rules._remedies import remedy_at

READS_NEIGHBOURS = frozenset(("conv1d", "conv2d", "conv3d", "lstm", "gru", "rnn_tanh", "rnn_relu"))


@rule(stage="structure")
def scrambled_view(traces: CallTraces) -> Finding | None:
    trace = first(traces)
    if trace is None:
        return None
    led = trace.before(trace.root)
    for at in sorted(led):
        made = trace.calls[at]
        before = made.shapes[0] if made.shapes else ()
        if made.name not in ("view", "reshape", "unflatten") or not _reordered(before, made.shape):
            continue
        users = {trace.calls[user].name for user in trace.users(at)}
        return Finding(
            says=f"a {made.name} turns {before} into {made.shape}: axes change places and values stay, so that neighbours are torn apart",
            layer="data",
            saves=NOTHING,
            because={"axes": float(len(made.shape)), "length": float(made.shape[-1])},
            fix=f"use `permute` instead of `{made.name}`",
            where=made.where,
            confidence=LIKELY if users & READS_NEIGHBOURS else GUESS,
            remedies=remedy_at(made.where, "permute-instead"),
        )
    return None


def _reordered(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """The same lengths in another order, behind the same first axis; axes of length 1 carry nothing."""
    if len(before) != len(after) or len(before) < 3 or before[0] != after[0]:
        return False
    moved, there = [n for n in before[1:] if n > 1], [n for n in after[1:] if n > 1]
    return moved != there and sorted(moved) == sorted(there)


def _view(before: tuple[int, ...], after: tuple[int, ...], reader: str = "conv2d") -> CallTraces:
    return traced(
        call("view", -2, shape=after, shapes=(before,)), call(reader, 0, -1), call("cross_entropy", 1, -2, shape=())
    )


SICK = ((_view((64, 8, 8, 3), (64, 3, 8, 8)),), (_view((64, 20, 6), (64, 6, 20), "matmul"),))
# One channel; flattening; heads; nothing moved.
WELL = (
    (_view((64, 8, 8, 1), (64, 1, 8, 8)),),
    (_view((64, 8, 8, 3), (64, 192)),),
    (_view((64, 20, 32), (64, 20, 4, 8)),),
    (_view((64, 3, 8, 8), (64, 3, 8, 8)),),
)
