"""The gradient of a function that was written by hand is not the slope of the function.

Looks for:  a custom `autograd.Function` whose backward gives another gradient than the differences of its own results do, in double
            precision, on the arguments of one of its calls.
Matters:    everything before it is moved in a wrong direction, or by a wrong length.
Try:        leave the function to autograd, or check it with `torch.autograd.gradcheck`.
Not this:   gradients that are meant to be another thing: straight-through estimators (the result does not rest on what they pass a gradient
            to), reversed, scaled or clipped gradients of what is passed on unchanged; kinks.
"""

from netdyno.records.base import Place
from netdyno.records.calls import CustomGradient, CustomGradients
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import NOTHING

# In double precision a right gradient differs in the eighth digit, in all numbers: these are far too many to be chance.
MANY, SHARE = 4, 0.25
# Ratios that are the same to a per cent: a factor, which somebody may have put there on purpose.
FACTOR = 1.01


@rule(stage="structure")
def wrong_backward(customs: CustomGradients) -> Finding | None:
    wrong = [one for one in customs.functions if _wrong(one)]
    if not wrong:
        return None
    worst = max(wrong, key=lambda one: (not _scaled(one), one.wrong))
    ratio = worst.ratio or 0.0
    return Finding(
        says=f"the backward of {worst.name} is not the slope of its forward: {worst.wrong} of {worst.tested} gradients differ from it,"
        f" by a factor of {ratio:.3g}{'' if _scaled(worst) else ' in the middle'}",
        layer="optimisation",
        saves=NOTHING,
        because={
            "wrong": float(worst.wrong),
            "tested": float(worst.tested),
            "ratio": ratio,
            "ratio_low": worst.ratio_low or 0.0,
            "ratio_high": worst.ratio_high or 0.0,
        },
        fix=f"let autograd differentiate {worst.name}, or make `torch.autograd.gradcheck` pass",
        where=worst.where,
        confidence=0.6 if _scaled(worst) else 0.9,
    )


def _wrong(one: CustomGradient) -> bool:
    return not one.flat and not one.passes_on and one.wrong >= max(MANY, SHARE * one.tested)


def _scaled(one: CustomGradient) -> bool:
    """Whether all are wrong by one positive factor."""
    low, high = one.ratio_low or 0.0, one.ratio_high or 0.0
    return one.wrong == one.tested and low > 0 and high <= FACTOR * low


def _custom(**fields: object) -> tuple[CustomGradients]:
    known: dict[str, object] = {"name": "Swish", "where": Place(file="train.py", line=31), "tested": 12}
    return (CustomGradients(functions=(CustomGradient(**(known | fields)),)),)  # type: ignore[arg-type]


SICK = (
    _custom(wrong=12, ratio=-0.6, ratio_low=-3.0, ratio_high=0.4),
    _custom(wrong=5, ratio=0.5, ratio_low=0.2, ratio_high=0.9),
    _custom(wrong=12, ratio=2.0, ratio_low=2.0, ratio_high=2.0),
)
# Right; a straight-through estimator; a reversed gradient; a pair of numbers.
WELL = (
    _custom(),
    _custom(tested=3, wrong=3, flat=9, ratio=0.1, ratio_low=-1.0, ratio_high=1.0),
    _custom(wrong=12, passes_on=True, ratio=-1.0, ratio_low=-1.0, ratio_high=-1.0),
    _custom(wrong=2, ratio=0.9, ratio_low=0.9, ratio_high=0.9),
)
