"""The script ended because a loss of probabilities was given numbers that are none.

Looks for:  the error of binary cross-entropy on inputs or targets outside of 0 and 1.
Matters:    raw outputs are no probabilities, and labels 1 and 2 are no 0 and 1.
Try:        `binary_cross_entropy_with_logits` on raw outputs; labels 0 and 1.
Not this:   probabilities that rounding moved: the loss with logits has no such problem.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def unbounded_probabilities(ending: Ending) -> Finding | None:
    if not matched(ending, "unbounded-probabilities"):
        return None
    return failure(
        ending,
        says="binary cross-entropy was given values outside of 0 and 1",
        fix="use `binary_cross_entropy_with_logits` on raw outputs (or a sigmoid before the loss), and labels of 0 and 1",
        layer="optimisation",
        remedies=remedy("squash-outputs"),
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("all elements of input should be between 0 and 1"),),)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
