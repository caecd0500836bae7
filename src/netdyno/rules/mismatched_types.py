"""The script ended because an operation was given numbers of two kinds.

Looks for:  the errors of operations between float and double, or of whole numbers where others are needed.
Matters:    arrays of numpy are double, weights are float; class numbers must be whole, shares must not.
Try:        `.float()` where the data become tensors; `.long()` for class numbers.
Not this:   autocast, which casts by itself within its block.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def mismatched_types(ending: Ending) -> Finding | None:
    if not matched(ending, "mismatched-types"):
        return None
    return failure(
        ending,
        says=f"1 operation was given two kinds of numbers ({ending.message[:120]})",
        fix=_fix(ending),
        layer="data",
        remedies=remedy("single-precision") if "ouble" in ending.message else (),
    )


def _fix(ending: Ending) -> str:
    if "Double" in ending.message or "double" in ending.message:
        return "make the data float where they become tensors: `torch.tensor(x, dtype=torch.float32)`; numpy's numbers are double"
    if "Half" in ending.message or "BFloat16" in ending.message:
        return "give inputs and weights one precision: `x.to(next(model.parameters()).dtype)`, or run under `torch.autocast`"
    if "Long" in ending.message:
        return (
            "class numbers and indices are whole numbers: `.long()`; what is compared with outputs is not: `.float()`"
        )
    return "cast one of both: `.float()` for inputs and targets of regressions, `.long()` for class numbers and indices"


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=0)


SICK = (
    (_ended("mat1 and mat2 must have the same dtype, but got Double and Float"),),
    (_ended("expected scalar type Long but found Float"),),
    (_ended("Found dtype Double but expected Float"),),
)
# Another error; a file that is not there.
WELL = (
    (_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),
    (_ended("[Errno 2] No such file or directory: 'x.pt'", "FileNotFoundError"),),
)
