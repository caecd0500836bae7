"""The script ended because a batch of one sample met batch normalisation in training.

Looks for:  the error of batch statistics over a single value.
Matters:    one value has no variance; the last batch of a pass often has one sample only.
Try:        `drop_last=True` for the training loader, or `model.eval()` where it is not trained.
Not this:   evaluation of single samples in training mode: there `model.eval()` is missing.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def lone_sample(ending: Ending) -> Finding | None:
    if not matched(ending, "lone-sample"):
        return None
    return failure(
        ending,
        says="batch normalisation in training mode was given 1 value per channel",
        fix="pass `drop_last=True` to the training loader; where nothing is trained, call `model.eval()` first",
        layer="data",
        remedies=remedy("drop-last-batch"),
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("Expected more than 1 value per channel when training, got input size torch.Size([1, 32])"),),)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
