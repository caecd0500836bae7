"""Layers are kept in a plain list or dictionary: they compute, and nobody trains, moves or saves them.

Looks for:  parameters that ask for a gradient in modules that an attribute's list, tuple or dictionary holds, which are in
            no module's parameters and in no optimizer.
Matters:    they stay as they were initialised, are missing from the state dict, and do not follow `.to(device)`.
Try:        `nn.ModuleList`, `nn.ModuleDict` or `nn.ParameterList`.
Not this:   a frozen teacher that is hidden on purpose, and parameters that the optimizer was given beside the model's.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, Hidden
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen
from netdyno.rules._remedies import remedy


@rule(suggests=(), stage="structure")
def hidden_parameters(gradients: Gradients) -> Finding | None:
    graded = [one for one in gradients.hidden if one.graded]
    if not graded:
        return None
    return Finding(
        says=f"{len(graded)} parameters get gradients and are not among the model's parameters, since a plain list or dictionary"
        f" holds their modules (`{graded[0].name}`): no optimizer moves them and the state dict leaves them out",
        layer="optimisation",
        saves=NOTHING,
        because={"hidden": float(len(graded)), "registered": float(gradients.trainable)},
        fix=f"make `{graded[0].name.partition('[')[0]}` an `nn.ModuleList` (or `nn.ModuleDict`)",
        where=gradients.hidden_where or Place(module=graded[0].name),
        confidence=1.0,
        explains=("unreached-parameters",),
        remedies=remedy("train-everything"),
    )


SICK = ((seen(hidden=(Hidden(name="blocks[0].weight", graded=True), Hidden(name="blocks[1].weight", graded=True))),),)
# Nothing hidden; a teacher that only runs without gradients.
WELL = ((seen(),), (seen(hidden=(Hidden(name="teacher[0].fc.weight", graded=False),)),))
