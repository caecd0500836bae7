"""What the model says of a row depends on the other rows of the batch.

Looks for:  rows that get another answer alone than in their batch, in evaluation mode, where inputs, outputs and targets
            have the rows on their first axis.
Matters:    training learns from the batch's company, and single requests are answered by another network.
Try:        a softmax, a normalisation or a recurrent layer over the right axis; `batch_first=True`; no reshape that
            merges rows.
Not this:   random answers, other axes first, normalisation that was made to use the batch.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.rules._base import rule

# Of the answers' spread over rows: other kernels for other sizes round differently, by a millionth.
MATERIAL = 0.1


@rule(stage="dynamics")
def batch_dependent_output(answers: Consistency) -> Finding | None:
    mixing = [model for model in answers.models if (model.alone or 0.0) >= MATERIAL]
    if not mixing:
        return None
    worst = max(mixing, key=lambda model: model.alone or 0.0)
    return Finding(
        says=f"`{worst.model}` answers a row alone differently than in its batch, by {worst.alone:.0%} of the answers' spread"
        f"{f' ({worst.alone_flips:.0%} of the choices change)' if worst.alone_flips else ''}: rows of a batch influence each other",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),
        because={"difference": worst.alone or 0.0, "flips": worst.alone_flips or 0.0},
        fix="look for a softmax, a normalisation, a recurrent layer or a reshape that works along the batch axis, and give it the right one",
        where=worst.where,
        confidence=0.5 if worst.own_only else 0.9,
    )


def _answer(alone: float | None, **fields: object) -> Consistency:
    return Consistency(models=(ModelConsistency(model="Net", rows=64, alone=alone, **fields),))  # type: ignore[arg-type]


# A softmax over the batch; batch statistics on purpose (a suspicion).
SICK = ((_answer(12.0, alone_flips=0.3),), (_answer(0.4, own_only=2),))
# Rounding; the axes are not known.
WELL = ((_answer(1e-7),), (_answer(None),))
