"""The script ended because a number points behind the end of a table.

Looks for:  the errors of embeddings, targets and indices beyond what there is.
Matters:    a token, a class or an index has a number that the table was not made for.
Try:        a table as large as the largest number plus one; classes that begin at 0.
Not this:   shapes that do not fit (see `mismatched-shapes`).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched, numbers


@rule(stage="failure")
def index_out_of_range(ending: Ending) -> Finding | None:
    found = matched(ending, "index-out-of-range")
    if not found:
        return None
    return failure(ending, says=_says(found.group()), fix=_fix(found.group()), layer="data")


def _says(words: str) -> str:
    if words.startswith("Target"):
        return f"a label is {numbers(words)[0]}, and the model has no output of that number"
    if "in self" in words:
        return "an embedding was asked for at least 1 number beyond its table"
    return f"at least 1 index points behind the end ({words})"


def _fix(words: str) -> str:
    if words.startswith("Target"):
        return f"number the classes from 0, and give the last layer at least {numbers(words)[0] + 1} outputs"
    if "in self" in words:
        return "make `num_embeddings` the largest number plus one, and count padding and unknown tokens in"
    return "look at the largest index and at the size of what it points into"


def _ended(message: str, error: str = "IndexError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=0)


SICK = ((_ended("Target 10 is out of bounds."),), (_ended("index out of range in self"),))
# Another error; a list of Python's own.
WELL = (
    (_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)", "RuntimeError"),),
    (_ended("list index out of range"),),
)
