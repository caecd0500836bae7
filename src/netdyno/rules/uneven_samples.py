"""The script ended because samples of one batch differ in their shapes.

Looks for:  the error of a batch that cannot be stacked.
Matters:    a batch is one tensor: its samples need one shape.
Try:        crop, resize or pad in the data set, or a `collate_fn` that pads.
Not this:   data of one shape with a rare broken sample: look for it and leave it out.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched


@rule(stage="failure")
def uneven_samples(ending: Ending) -> Finding | None:
    if not matched(ending, "uneven-samples"):
        return None
    return failure(
        ending,
        says="the samples of 1 batch have different shapes and cannot be stacked",
        fix="give all samples one shape (resize, crop, pad), or pass a `collate_fn` that pads them",
        layer="data",
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = (
    (_ended("stack expects each tensor to be equal size, but got [3, 32, 32] at entry 0 and [3, 30, 32] at entry 1"),),
)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
