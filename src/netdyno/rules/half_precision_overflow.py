"""Half precision cannot hold the numbers within a model, and its answers show it.

Looks for:  a model in float16 whose magnitudes pass 65504 when the same inputs run in float32, and answers that are no numbers,
            all the same, or far off.
Matters:    what is too large becomes infinite; what is divided by it becomes 0, and nothing says so.
Try:        `bfloat16`, which has the range of float32; or the large reduction in float32.
Not this:   rounding of answers that are right to some digits.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import Derived, ShippingUse
from netdyno.rules._base import rule
from netdyno.rules._shipping import effect, numbers, ruined, shipped

LARGEST = 65504.0
# Where the model tells rows apart and its copy does not: this share of the different answers is left.
SAME = 0.5


@rule(stage="use")
def half_precision_overflow(use: ShippingUse) -> Finding | None:
    sick = next((made for made in use.derived if _overflows(made)), None)
    if sick is None:
        return None
    return Finding(
        says=f"`{sick.model}` in half precision meets numbers up to {sick.peak:.3g} (`{sick.peak_op}`), and {LARGEST:.0f} is the largest it can hold: {effect(sick)}"
        + (
            f"; {sick.distinct} different answers are left of {sick.model_distinct}"
            if sick.distinct < sick.model_distinct
            else ""
        ),
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because=numbers(sick) | {"peak": float(sick.peak or 0.0), "different_answers": float(sick.distinct)},
        fix="use `bfloat16` instead of `half()`, or keep this operation in float32",
        where=sick.peak_where or sick.where,
        confidence=0.95,
    )


def _overflows(made: Derived) -> bool:
    same = made.distinct < SAME * made.model_distinct
    return made.how == "half" and (made.peak or 0.0) > LARGEST and (ruined(made) or same)


SICK = (
    (shipped(how="half", peak=3e9, peak_op="mul", peak_where=Place(file="net.py", line=28), error=1.0, distinct=1),),
)
# It fits; it is large somewhere, and the answers are right; another precision.
WELL = (
    (shipped(how="half", peak=900.0, error=0.002),),
    (shipped(how="half", peak=7e4, peak_op="mul", error=0.002),),
    (shipped(),),
)
