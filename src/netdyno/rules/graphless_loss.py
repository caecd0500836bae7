"""The backward pass begins at a number that no weight led to.

Looks for:  backward passes from a tensor without a history, in every update looked at.
Matters:    no gradient reaches any weight, whatever the optimizer does.
Try:        a loss that is computed from the model's outputs with functions that have a slope (no argmax, no `.item()`), and no
            `requires_grad = True` by hand.
Not this:   an input that is optimised itself, beside a loss that has a history.
"""

from netdyno.records.base import Place
from netdyno.records.calls import LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, losses


@rule(stage="loss")
def graphless_loss(losses: LossCalls) -> Finding | None:
    if not losses.graphless or losses.graphless < losses.passes:
        return None
    return Finding(
        says=f"all {losses.passes} backward passes looked at began at a number without a history: no gradient reaches the model",
        layer="optimisation",
        saves=NOTHING,
        because={"without_history": float(losses.graphless), "passes": float(losses.passes)},
        fix="compute the loss from the model's outputs with functions that have a slope, and set no requires_grad on it",
        where=losses.graph_where,
        confidence=CERTAIN,
        explains=("unreached-parameters",),
    )


SICK = ((losses(graphless=12, graph_where=Place(file="train.py", line=33)),),)
# Each has one; most have one; nothing was looked at.
WELL = ((losses(),), (losses(graphless=1),), (losses(passes=0),))
