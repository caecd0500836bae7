"""The script ended because no memory was left.

Looks for:  the error of an allocation that failed.
Matters:    the batch, or what is kept from earlier updates, is more than there is.
Try:        a smaller batch with accumulation, mixed precision, checkpointing; `.item()` or `.detach()` for what is
            kept over updates.
Not this:   memory that grows with each update: see what is told of growth.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched


@rule(stage="failure")
def exhausted_memory(ending: Ending) -> Finding | None:
    if not matched(ending, "exhausted-memory"):
        return None
    return failure(
        ending,
        says="an allocation failed, no memory was left",
        fix="make the batch smaller (accumulate gradients to keep its effect), and keep `.item()` or `.detach()` of what outlives an update",
        layer="memory",
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("CUDA out of memory. Tried to allocate 2.00 GiB."),),)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
