"""Something overwrites the weights between the step and the next forward pass.

Looks for:  weights that a forward pass finds as they were at the very start, or changed by far more than the step changed
            them, in nearly every look.
Matters:    what the optimizer learns is thrown away: an initialisation inside `forward`, a checkpoint that is loaded again.
Try:        initialise once, in `__init__`.
Not this:   weights that are clipped, normalised or averaged after the step, which change by less than the step did.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen, weight
from netdyno.rules._remedies import remedy

LOOKS, SHARE = 3, 0.6  # the last look has no next forward pass, and an odd one may be skipped


@rule(suggests=(), stage="structure")
def overwritten_weights(gradients: Gradients) -> Finding | None:
    undone = [
        one
        for one in gradients.weights
        if one.rewritten >= LOOKS - 1 and one.looks >= LOOKS and one.rewritten >= SHARE * (one.looks - 1)
    ]
    if not undone:
        return None
    first = undone[0]
    return Finding(
        says=f"`{first.name}` was overwritten before the next forward pass was over in {first.rewritten} of {first.looks} looks: what the step had"
        " changed was lost",
        layer="optimisation",
        saves=NOTHING,
        because={"overwritten": float(first.rewritten), "looks": float(first.looks), "parameters": float(len(undone))},
        fix="initialise the weights once, in `__init__`, and not in `forward`",
        where=Place(
            file=gradients.model_where.file if gradients.model_where is not None else None,
            line=gradients.model_where.line if gradients.model_where is not None else None,
            module=first.name.rpartition(".")[0] or first.name,
        ),
        confidence=0.9,
        remedies=remedy("initialise-once"),
    )


SICK = ((seen(weight(rewritten=3, looks=4)),),)
# Nothing; one reset of a cycle.
WELL = ((seen(),), (seen(weight(rewritten=1, looks=12)),))
