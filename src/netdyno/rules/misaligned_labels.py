"""Labels stand beside other samples than their own.

Looks for:  inputs whose nearest neighbours share their label no more often than chance, and do so once labels are moved by
            a few places, or do so in evaluation.
Matters:    there is nothing to learn: training can only memorise, and what it predicts is chance.
Try:        index, shuffle and filter inputs and labels together.
Not this:   inputs among which distance means nothing, noise in some labels, a task that is only hard.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, ENOUGH, SURE, SUSPECTED, healthy, wrong

# Of a thousand rows chance agreement moves by a few hundredths; an agreement that is there is far above.
NEAR, CLEAR = 0.08, 0.25


@rule(stage="data")
def misaligned_labels(samples: Samples) -> Finding | None:
    own, chance = samples.neighbours, samples.chance
    if own is None or chance is None or samples.looked < ENOUGH or samples.joint or own > chance + NEAR:
        return None
    moved = samples.shifted_neighbours if samples.shifted_neighbours is not None else chance
    held = samples.eval_neighbours if samples.eval_neighbours is not None else chance
    says = f"neighbouring inputs share their label in {own:.0%} of cases, chance is {chance:.0%}"
    if moved > own + CLEAR:
        says += f"; with labels moved by {samples.shift} they share it in {moved:.0%}"
    elif held > own + CLEAR:
        says += f", while in evaluation they share it in {held:.0%}: training's labels are not those of its inputs"
    elif not _guesses(samples):
        return None
    else:
        says += ", and evaluation is no better than a constant guess: labels seem to have nothing to do with the inputs"
    sure = CERTAIN if moved > own + CLEAR else SURE if held > own + CLEAR else SUSPECTED
    return wrong(
        says,
        fix="keep inputs and labels in one order: index, shuffle and filter them together",
        because={"neighbours": own, "chance": chance, "moved": moved, "evaluation": held},
        confidence=sure,
        where=samples.targets_where or samples.where,
        explains=("overfitting", "noisy-labels"),
    )


def _guesses(samples: Samples) -> bool:
    return (
        samples.eval_score is not None
        and samples.eval_guess is not None
        and samples.eval_score <= samples.eval_guess + 0.05
    )


SICK = (
    (healthy(neighbours=0.11, shift=1, shifted_neighbours=0.96, eval_score=0.1),),
    (healthy(neighbours=0.1, eval_neighbours=0.95, eval_score=0.1),),
    (healthy(neighbours=0.1, eval_neighbours=0.11, eval_score=0.1),),
)
# Well; sequences without a meaningful distance that are learnt all the same; two labels of which one is noisy.
WELL = (
    (healthy(),),
    (healthy(neighbours=0.12, eval_neighbours=0.12, eval_score=0.95),),
    (healthy(neighbours=0.6, eval_neighbours=0.9, eval_score=0.9),),
)
