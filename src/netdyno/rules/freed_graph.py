"""The script ended because a graph was walked backwards twice.

Looks for:  the error of a second backward pass through what the first one has freed.
Matters:    something of an earlier update, a hidden state or a running loss, still hangs on the graph of that update.
Try:        `.detach()` on what is carried from one update to the next; one `backward()` on the sum of the losses.
Not this:   two losses that share a forward pass on purpose: `retain_graph=True` on all but the last.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def freed_graph(ending: Ending) -> Finding | None:
    if not matched(ending, "freed-graph"):
        return None
    return failure(
        ending,
        says="a second backward pass went through a graph that the first one had freed, so what it starts from still hangs on an earlier update",
        fix="`.detach()` what is carried over from the last update (hidden state, running loss), or call `backward()` once on the sum of the losses",
        layer="optimisation",
        remedies=remedy("detach-loss") + remedy("detach-inputs"),
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = (
    (
        _ended(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)."
        ),
    ),
)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
