"""The script ended with an error of its own, of which no cause is known here.

Looks for:  an error that came out of the script and ended it.
Matters:    nothing after that line was done.
Try:        the line and the message.
Not this:   errors whose cause is known: each of those has a rule of its own.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, known

# Words of other common errors, and what helps.
HINTS = {
    "view size is not compatible": "use `.reshape(...)`, or `.contiguous()` before `.view(...)`",
    "Can't call numpy() on Tensor that requires grad": "use `.detach().cpu().numpy()`",
    "Weights only load failed": "save tensors and plain values only; `weights_only=False` for files that you trust",
    "No such file or directory": "check the path, and from which folder the script is started",
    "No module named": "install the package that is missing",
    "does not have a deterministic implementation": "leave `use_deterministic_algorithms` off for this operation, or use another one",
    "Dimension out of range": "look for a `squeeze()` that takes the batch away when it holds one sample",
}  # fmt: skip


@rule(stage="failure")
def failed_script(ending: Ending) -> Finding | None:
    if known(ending):
        return None
    return failure(ending, says=f"{ending.error}: {ending.message[:200]}", fix=_fix(ending), layer="optimisation")


def _fix(ending: Ending) -> str:
    place = (
        f"{ending.where.file}:{ending.where.line}" if ending.where and ending.where.file else "the line of the error"
    )
    return next((fix for words, fix in HINTS.items() if words in ending.message), f"look at {place}")


def _ended(message: str, error: str) -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=12)


SICK = (
    (_ended("'labels'", "KeyError"),),
    (_ended("[Errno 2] No such file or directory: 'x.pt'", "FileNotFoundError"),),
)
# An error whose cause has a rule.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)", "RuntimeError"),),)
