"""The script ended because its loss hangs on no weight.

Looks for:  the error of a backward pass from a tensor without a graph.
Matters:    between model and loss the graph was cut, or nothing that was trained takes part.
Try:        no `.detach()`, `.item()`, `.numpy()`, `torch.tensor(...)` or `no_grad` between model and loss; at least
            one weight that asks for gradients.
Not this:   a frozen model that is only evaluated: it needs no `backward()`.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched
from netdyno.rules._remedies import remedy


@rule(stage="failure")
def detached_loss(ending: Ending) -> Finding | None:
    if not matched(ending, "detached-loss"):
        return None
    return failure(
        ending,
        says="the loss hangs on 0 weights: between model and loss the graph was cut, or every weight that takes part is frozen",
        fix="compute the loss from the model's own output, without `.detach()`, `.data`, `.item()`, `argmax` or `torch.no_grad()` in between",
        layer="optimisation",
        remedies=remedy("keep-graph"),
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = ((_ended("element 0 of tensors does not require grad and does not have a grad_fn"),),)
# Another error.
WELL = (
    (
        _ended(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)."
        ),
    ),
)
