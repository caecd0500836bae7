"""The loss is a number, its gradient is none.

Looks for:  the first gradient that is NaN while loss, data and weights were numbers, and the call that stood where its slope is
            infinite (a root, norm or logarithm of 0, a division by 0 that `where` hid).
Matters:    the step that follows makes every weight NaN, and the loss that would tell comes one update later.
Try:        make the argument safe before the call (`clamp`, `+ eps`): hiding the result afterwards does not help.
Not this:   gradients that overflow, which a gradient scaler expects; weights that grew out of bounds.
"""

from netdyno.records.calls import NonFinite
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING

GREW = 30.0  # times the largest weight of the start: beyond it the weights are the cause


@rule(stage="loss")
def non_finite_backward(broken: NonFinite) -> Finding | None:
    if broken.stage != "backward" or not broken.persists:
        return None
    if broken.weights_high and broken.weights_high_first and broken.weights_high > GREW * broken.weights_high_first:
        return None
    call = f": `{broken.call}` stood where its slope is infinite" if broken.call else ""
    parameter = f" (of `{broken.parameter}` first)" if broken.parameter else ""
    return Finding(
        says=f"in update {broken.update} the loss was {broken.loss if broken.loss is not None else 0.0:.3g} and its gradient no number{parameter}{call}",
        layer="optimisation",
        saves=NOTHING,
        because={"update": float(broken.update), "loss": broken.loss or 0.0},
        fix="make the argument safe before the call (`clamp(min=eps)`, `+ eps`); `where` after it hides the value, not the gradient",
        where=broken.where,
        confidence=LIKELY if broken.call else 0.7,
        explains=("hidden-nan",),
    )


def _broken(**fields: object) -> NonFinite:
    known: dict[str, object] = {
        "stage": "backward",
        "update": 1,
        "call": "sqrt",
        "loss": 0.9,
        "parameter": "fc1.weight",
    }
    return NonFinite(**(known | fields))  # type: ignore[arg-type]


SICK = ((_broken(),), (_broken(call=""),))
# Another place; it recovers; weights that grew.
WELL = ((_broken(stage="forward"),), (_broken(persists=False),), (_broken(weights_high=5e8, weights_high_first=0.4),))
