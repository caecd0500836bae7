"""A call of the forward pass made a value that is no number, out of numbers.

Looks for:  the first loss that is no number, the batch and the weights it was made of, both fine, and the first call in that
            forward pass that gave NaN or infinity.
Matters:    one step with such a loss makes every weight NaN.
Try:        keep the argument of a logarithm, root or division away from 0; a function that is stable by itself.
Not this:   weights that had grown out of bounds (the learning rate then); data that held it; masks of minus infinity.
"""

from netdyno.records.calls import NonFinite
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING

GREW = 30.0  # times the largest weight of the start: beyond it the weights are the cause


@rule(stage="loss")
def non_finite_forward(broken: NonFinite) -> Finding | None:
    if broken.stage != "forward" or not broken.persists or not broken.call:
        return None
    if broken.weights_high and broken.weights_high_first and broken.weights_high > GREW * broken.weights_high_first:
        return None
    return Finding(
        says=f"`{broken.call}` made the first value that is no number, in update {broken.update}; its input and all weights were numbers",
        layer="optimisation",
        saves=NOTHING,
        because={"update": float(broken.update), "largest_weight": broken.weights_high or 0.0},
        fix=f"guard `{broken.call}`: keep what goes into it away from 0 and from very large values",
        where=broken.where,
        confidence=LIKELY,
    )


def _broken(**fields: object) -> NonFinite:
    known: dict[str, object] = {
        "stage": "forward",
        "update": 9,
        "call": "log",
        "weights_high": 0.6,
        "weights_high_first": 0.5,
    }
    return NonFinite(**(known | fields))  # type: ignore[arg-type]


SICK = ((_broken(),),)
# Weights that grew; another place; it recovers.
WELL = ((_broken(weights_high=5e8),), (_broken(stage="input"),), (_broken(persists=False),))
