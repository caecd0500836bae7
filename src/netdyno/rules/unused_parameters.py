"""The script ended because some weights took no part in an update of several processes.

Looks for:  the error of a reduction between processes that waits for gradients which never come.
Matters:    each process waits for all gradients; weights that this batch does not use send none.
Try:        `find_unused_parameters=True`, or let each weight take part in each loss.
Not this:   weights that never take part: leave them out of the model.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched


@rule(stage="failure")
def unused_parameters(ending: Ending) -> Finding | None:
    if not matched(ending, "unused-parameters"):
        return None
    return failure(
        ending,
        says="1 or more weights got no gradient in an update, and the other processes waited for it",
        fix="pass `find_unused_parameters=True` to DistributedDataParallel, or make every weight take part in the loss",
        layer="compute",
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("Expected to have finished reduction in the prior iteration before starting a new one."),),)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
