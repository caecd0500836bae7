"""Two weights that began as copies of each other drift apart: a tie that was copied instead of shared.

Looks for:  an embedding and another layer's weight with the same numbers (or their transpose) at the first step, in
            different memory, that differ at the end.
Matters:    the model has twice the parameters that its author counts, and neither learns from the other.
Try:        `head.weight = embedding.weight`.
Not this:   a weight that is shared, and branches of one kind that begin alike.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen


@rule(suggests=(), stage="structure")
def untied_weights(gradients: Gradients) -> Finding | None:
    if not gradients.copies:
        return None
    one, other = gradients.copies[0]
    return Finding(
        says=f"`{one}` and `{other}` began with the same numbers in 2 places and have drifted apart: they were copied, not tied",
        layer="optimisation",
        saves=NOTHING,
        because={"pairs": float(len(gradients.copies))},
        fix=f"share the parameter itself: `{other} = {one}`",
        where=Place(module=other.rpartition(".")[0] or other),
        confidence=0.85,
    )


SICK = ((seen(copies=(("embedding.weight", "head.weight"),)),),)
WELL = ((seen(),),)
