"""Layers begin with rows that are all equal: their units compute the same thing and learn the same thing.

Looks for:  matrices of four and more rows that are equal at the first step, and stayed equal, or got no gradient at all, or
            are most of the network.
Matters:    a layer of equal units is worth one unit; where all weights are zero, nothing behind them learns.
Try:        leave the default initialisation, or draw random numbers.
Not this:   one zero layer at the end of a branch or of the network, which gets different gradients at once and is meant
            to begin silent; norms, biases and scales.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, Weight
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen, weight
from netdyno.rules._remedies import remedy

EQUAL = 1e-4  # of the norm: after steps along random gradients rows differ by far more
LOOKS = 3  # rows of a zero layer part at its second step


@rule(suggests=(), stage="structure")
def constant_initialisation(gradients: Gradients) -> Finding | None:
    mixing = [
        one
        for one in gradients.weights
        if one.is_matrix and one.shape[0] >= 4 and one.looks >= LOOKS and "Norm" not in one.module
    ]
    bad = [one for one in mixing if _stays_equal(one) or _stays_zero(one)]
    if not bad:
        bad = [one for one in mixing if _began_equal(one)]
        # Dropout parts equal units by chance, slowly; a whole network of them is no gating on purpose.
        if len(bad) < 2 or len(bad) < 0.5 * len(mixing):
            return None
    first = bad[0]
    return Finding(
        says=f"all {first.shape[0]} units of `{first.name}` begin with the same weights{_others(bad)}, so they compute and learn the same"
        " thing",
        layer="optimisation",
        saves=NOTHING,
        because={"layers": float(len(bad)), "of": float(len(mixing)), "units": float(first.shape[0])},
        fix="initialise weights with random numbers (the default of PyTorch does); only biases and last layers may begin at zero",
        where=Place(module=first.name),
        confidence=0.95,
        remedies=remedy("initialise-again"),
    )


def _stays_equal(one: Weight) -> bool:
    return _began_equal(one) and one.row_spread_last is not None and one.row_spread_last < EQUAL


def _began_equal(one: Weight) -> bool:
    return one.row_spread_first is not None and one.row_spread_first < EQUAL


def _stays_zero(one: Weight) -> bool:
    return one.norm_first == 0 and not one.norm_last and one.zero == one.looks


def _others(bad: list[Weight]) -> str:
    return f", and so do those of {len(bad) - 1} more layers" if len(bad) > 1 else ""


SICK = (
    (seen(weight(row_spread_first=0.0, row_spread_last=1e-7), weight("head.weight", shape=(10, 96))),),
    (seen(weight(norm_first=0.0, norm_last=0.0, zero=12, row_spread_first=None, row_spread_last=None, moved=None)),),
    (
        seen(
            weight(row_spread_first=0.0, row_spread_last=0.4),
            weight("fc2.weight", row_spread_first=0.0, row_spread_last=0.5),
        ),
    ),
)
# Random; a zero layer at the end of a branch that moves at once; an embedding; a head of one output.
WELL = (
    (seen(),),
    (seen(weight(), weight("block.last.weight", norm_first=0.0, norm_last=2.0, zero=0, row_spread_first=None)),),
    (seen(weight(), weight("table.weight", module="Embedding", row_spread_first=0.0, row_spread_last=0.0)),),
    (
        seen(
            weight(),
            weight("gate.weight", row_spread_first=0.0, row_spread_last=0.3),
            weight("head.weight", shape=(1, 96)),
        ),
    ),
)
