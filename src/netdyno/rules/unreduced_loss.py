"""The script ended because backward began at many numbers instead of one.

Looks for:  the error of a backward pass from a tensor with more than one element.
Matters:    a loss per sample has no single direction; it must be averaged or summed first.
Try:        `.mean()` before `.backward()`, or the reduction of the loss as it is by default.
Not this:   a vector on purpose, with `gradient=` passed to `backward`.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def unreduced_loss(ending: Ending) -> Finding | None:
    if not matched(ending, "unreduced-loss"):
        return None
    return failure(
        ending,
        says="backward() began at a loss with more than 1 element",
        fix='reduce the loss to one number first: `loss.mean().backward()`, or leave out `reduction="none"`',
        layer="optimisation",
        remedies=remedy("average-loss"),
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("grad can be implicitly created only for scalar outputs"),),)
# Another error.
WELL = (
    (
        _ended(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)."
        ),
    ),
)
