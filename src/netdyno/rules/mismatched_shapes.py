"""The script ended because shapes that meet do not fit each other.

Looks for:  the errors of products, sums and views whose shapes disagree.
Matters:    a layer was made for another width than the one before it gives, or a view counts wrongly.
Try:        the two numbers of the message: make the later layer as wide as what comes out of the earlier one.
Not this:   samples that differ among each other (see `uneven-samples`).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched, numbers
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def mismatched_shapes(ending: Ending) -> Finding | None:
    if not matched(ending, "mismatched-shapes"):
        return None
    return failure(
        ending,
        says=f"1 operation met shapes that do not fit ({ending.message[:140]})",
        fix=_fix(ending),
        layer="optimisation",
        remedies=remedy("match-shapes") if "arget" in ending.message and "input size" in ending.message else (),
    )


def _fix(ending: Ending) -> str:
    found = numbers(ending.message.partition("(")[2])
    if "mat1 and mat2" in ending.message and len(found) >= 4:
        return f"the layer expects {found[2]} features and gets {found[1]}: make it `nn.Linear({found[1]}, ...)`, or flatten its input as it was made for"
    if "batch_size" in ending.message:
        return "outputs and targets must have the same number of rows: look for a view or a transposition that mixes rows and features"
    return (
        "make the two sizes of the message equal: the later layer, or the view, follows from what comes out before it"
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=0)


SICK = (
    (_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),
    (_ended("Expected input batch_size (32) to match target batch_size (64).", "ValueError"),),
)
# Another error; samples that cannot be stacked.
WELL = (
    (_ended("mat1 and mat2 must have the same dtype, but got Double and Float"),),
    (_ended("stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"),),
)
