"""The script ended because numbers were changed in place that the backward pass still needs.

Looks for:  the errors of tensors that were changed after a graph was made of them.
Matters:    the gradient of a step is computed from what the step gave; changed, it would be wrong, so PyTorch stops.
Try:        `out = out + x` instead of `out += x`; `inplace=False`; an optimizer's step after all backward passes.
Not this:   changes under `no_grad` of what no graph needs, as optimizers make them.
"""

import re

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.records.shipping import InplaceWrite, InplaceWrites
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched

SHAPE = re.compile(r"\[torch\.\w+ \[([\d, ]*)\]\], which is output \d+ of (\w+)")
# What stands between a weight and the product it goes into.
OF_WEIGHTS = ("TBackward0", "AsStridedBackward0", "AccumulateGrad")
SIGNS = {
    "__iadd__": "+=",
    "__isub__": "-=",
    "__imul__": "*=",
    "__itruediv__": "/=",
    "__ipow__": "**=",
    "__setitem__": "[...] =",
}


@rule(stage="failure")
def modified_in_place(ending: Ending, writes: InplaceWrites | None) -> Finding | None:
    if not matched(ending, "modified-in-place"):
        return None
    if "leaf" in ending.message or "is a view" in ending.message:
        return failure(
            ending, says="1 tensor that asks for gradients, or a view of it, was changed in place", layer="optimisation",
            fix="change weights under `torch.no_grad()`, and other tensors by making new ones (`x = x + 1`)",
        )  # fmt: skip
    shape, made_by = _changed(ending.message)
    write = next((one for one in writes.writes if one.shape == shape), None) if writes is not None else None
    if write is None and made_by in OF_WEIGHTS:
        return failure(
            ending, says=f"weights of shape {list(shape)} were changed, by an optimizer's step, before all backward passes that need them",
            layer="optimisation", fix="run every `backward()` of a forward pass before the optimizer's step that changes its weights",
        )  # fmt: skip
    sign = f"`{SIGNS.get(write.call, write.call)}`" if write is not None else "a change in place"
    return failure(
        ending, says=f"{sign} changed the result of {made_by.removesuffix('Backward0') or 'an operation'}, of shape {list(shape)}, which its backward pass needs",
        layer="optimisation", fix="make a new tensor instead: `out = out + x`, not `out += x`; `relu(x)`, not `relu_(x)` or `inplace=True`",
        where=write.where if write is not None else None,
    )  # fmt: skip


def _changed(message: str) -> tuple[tuple[int, ...], str]:
    found = SHAPE.search(message)
    if found is None:
        return (), ""
    return tuple(int(each) for each in found.group(1).split(",") if each.strip()), found.group(2)


def _ended(made_by: str = "ReluBackward0", shape: str = "64, 8, 8, 8") -> Ending:
    return Ending(
        error="RuntimeError",
        message="one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.FloatTensor [{shape}]], which is output 0 of {made_by}, is at version 1; expected version 0 instead.",
        where=Place(file="train.py", line=33),
    )


WRITES = InplaceWrites(
    writes=(
        InplaceWrite(
            call="__iadd__", shape=(64, 8, 8, 8), made_by="ReluBackward0", where=Place(file="train.py", line=21)
        ),
    )
)
# The line is known; it is not; a step of an optimizer between two backward passes.
SICK = ((_ended(), WRITES), (_ended(),), (_ended("AsStridedBackward0", "10, 64"),))
# Another error beside harmless changes in place.
WELL = ((Ending(error="KeyError", message="'labels'"), WRITES),)
