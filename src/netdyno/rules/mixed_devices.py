"""The script ended because tensors of one operation lie on two devices.

Looks for:  the error of an operation whose tensors lie on different devices.
Matters:    model and batch, or a tensor made inside of forward, were not moved together.
Try:        `.to(device)` for each batch; `register_buffer` for constants of a model, and `device=x.device` for
            tensors made in forward.
Not this:   indices on the host, which are allowed.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched


@rule(stage="failure")
def mixed_devices(ending: Ending) -> Finding | None:
    if not matched(ending, "mixed-devices"):
        return None
    return failure(
        ending,
        says="one operation was given tensors on 2 devices",
        fix="move each batch to the model's device, keep constants as buffers, and make new tensors with `device=x.device`",
        layer="compute",
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),),)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
