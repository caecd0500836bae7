"""An attribute that looks like a freeze is set, and freezes nothing.

Looks for:  `requires_grad = False` on a module, or a misspelt `require_grad` and the like on parameters, while these go on
            receiving gradients.
Matters:    what was meant to stay is trained, and forgets.
Try:        `module.requires_grad_(False)`, or `parameter.requires_grad = False` for each parameter.
Not this:   parameters that are really frozen, and attributes of modules without trained parameters.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen


@rule(suggests=(), stage="structure")
def ineffective_freeze(gradients: Gradients) -> Finding | None:
    if not gradients.misspelt:
        return None
    first = gradients.misspelt[0]
    owner, _, word = first.rpartition(".")
    return Finding(
        says=f"`{word} = False` was set on `{owner}` and {len(gradients.misspelt) - 1} more, which freezes nothing: the parameters go on training",
        layer="optimisation",
        saves=NOTHING,
        because={"attributes": float(len(gradients.misspelt)), "trainable": float(gradients.trainable)},
        fix=f"call `{owner}.requires_grad_(False)`",
        where=Place(module=owner),
        confidence=0.95,
    )


SICK = (
    (seen(misspelt=("backbone.requires_grad",)),),
    (seen(misspelt=("fc1.weight.require_grad", "fc1.bias.require_grad")),),
)
WELL = ((seen(),), (seen(frozen=9000),))
