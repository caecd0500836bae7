"""Many training labels are wrong, and the model learns them by heart.

Looks for:  rows whose nearest neighbours agree on another label, far more often in training than in evaluation, and a model
            that gets these rows "right" and evaluation less so.
Matters:    every wrong label that is memorised bends the answer for its neighbours.
Try:        look at the rows that are disputed, relabel or drop them; else a robust loss, and stopping early.
Not this:   classes that overlap (evaluation then has as many such rows), noise that the training withstands.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import ENOUGH, SURE, SUSPECTED, healthy, wrong

# Clean digits have one disputed row in a hundred; one in twelve is beyond what sampling does.
DISPUTED = 0.08
MORE = 3.0


@rule(stage="data")
def noisy_labels(samples: Samples) -> Finding | None:
    disputed, held = samples.disputed, samples.eval_disputed
    own, chance = samples.neighbours, samples.chance
    if disputed is None or own is None or chance is None or samples.looked < ENOUGH or samples.joint:
        return None
    if disputed < DISPUTED or own < chance + 0.2 or samples.conflicts > 0.05 * samples.train_distinct:
        return None
    train, evaluated = samples.train_score, samples.eval_score
    if train is None or evaluated is None or train < 1 - disputed or evaluated > train:
        return None  # it was not learnt by heart: the noise is withstood
    only_here = held is not None and disputed > MORE * max(held, 0.01)
    return wrong(
        f"{disputed:.0%} of the training rows carry another label than their neighbours agree on"
        f"{f', in evaluation {held:.0%}' if held is not None else ''}, and the model has learnt them by heart: "
        f"{train:.0%} right in training, {evaluated:.0%} in evaluation",
        fix="check the disputed rows and relabel or drop them; label smoothing and early stopping soften the rest",
        because={"disputed": disputed, "eval_disputed": held or 0.0, "train_score": train, "eval_score": evaluated},
        confidence=SURE if only_here else SUSPECTED,
        where=samples.where,
        layer="data",
        explains=("overfitting",),
    )


SICK = ((healthy(disputed=0.27, eval_disputed=0.015, neighbours=0.5, train_score=0.95, eval_score=0.75),),)
# Clean; a fifth is noise and the training withstands it; classes that overlap on both sides are a suspicion at most.
WELL = (
    (healthy(),),
    (healthy(disputed=0.18, eval_disputed=0.015, neighbours=0.65, train_score=0.78, eval_score=0.95),),
)
