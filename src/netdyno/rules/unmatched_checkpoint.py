"""The script ended because a checkpoint and the model do not have the same names or shapes.

Looks for:  the error of `load_state_dict` with missing, unexpected or misshapen keys.
Matters:    the weights of another model, or of the same one inside of a wrapper, fit under other names or not at all.
Try:        the names of the message: take a prefix off, or build the model that was saved.
Not this:   `strict=False`, which hides the same differences (see `unmapped-keys`).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched

PREFIXES = ("module.", "_orig_mod.", "model.")


@rule(stage="failure")
def unmatched_checkpoint(ending: Ending) -> Finding | None:
    if not matched(ending, "unmatched-checkpoint"):
        return None
    return failure(ending, says=_says(ending), fix=_fix(ending), layer="deployment")


def _prefix(ending: Ending) -> str | None:
    unexpected = ending.message.partition("Unexpected key(s)")[2]
    return next((each for each in PREFIXES if f'"{each}' in unexpected), None)


def _says(ending: Ending) -> str:
    missing, unexpected, misshapen = (
        ending.message.partition(words)[2].partition(": ")[2].partition("\n")[0].count('"') // 2
        for words in ("Missing key(s)", "Unexpected key(s)", "\0")
    )
    if "size mismatch" in ending.message:
        misshapen = ending.message.count("size mismatch")
        return f"{misshapen} tensors of the checkpoint have another shape than the model's"
    return (
        f"the model has {missing} names that the checkpoint lacks, and the checkpoint {unexpected} that the model lacks"
    )


def _fix(ending: Ending) -> str:
    prefix = _prefix(ending)
    if prefix is not None:
        return f"take the prefix off: `{{key.removeprefix({prefix!r}): value for key, value in state.items()}}`"
    return "build the model that was saved, or rename the keys of the checkpoint; don't hide it with `strict=False`"


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=0)


SICK = (
    (
        _ended(
            'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "fc.weight", "fc.bias". \n\t'
            'Unexpected key(s) in state_dict: "module.fc.weight", "module.fc.bias". '
        ),
    ),
)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
