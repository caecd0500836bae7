"""Many training labels are wrong, and the model learns them by heart.

Looks for:  rows whose nearest neighbours agree on another label, far more often in training than in evaluation, and a model
            that gets these rows "right" and evaluation less so, or a held-out score that falls while they are learnt.
Matters:    every wrong label that is memorised bends the answer for its neighbours.
Try:        look at the rows that are disputed, relabel or drop them; else a robust loss, and stopping early.
Not this:   classes that overlap (evaluation then has as many such rows), noise that the training withstands.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.records.scores import Round, Scores
from netdyno.rules._base import rule
from netdyno.rules._samples import ENOUGH, SURE, SUSPECTED, healthy, wrong

# Clean digits have one disputed row in a hundred; one in twelve is beyond what sampling does.
DISPUTED = 0.08
MORE = 3.0
# Five points and three deviations below its best is a fall that no choice of rounds explains.
FALL, DEVIATIONS = 0.05, 3.0


@rule(stage="data")
def noisy_labels(samples: Samples, scores: Scores | None = None) -> Finding | None:
    disputed, held = samples.disputed, samples.eval_disputed
    own, chance = samples.neighbours, samples.chance
    if disputed is None or own is None or chance is None or samples.looked < ENOUGH or samples.joint:
        return None
    if disputed < DISPUTED or own < chance + 0.2 or samples.conflicts > 0.05 * samples.train_distinct:
        return None
    train, evaluated = samples.train_score, samples.eval_score
    if train is None or evaluated is None:
        return None
    fell = _fell(scores)
    if fell is not None:
        effect = f"the held-out score fell from {fell[0]:.0%} to {fell[1]:.0%} as the model learnt them"
    elif train >= 1 - disputed and evaluated <= train:
        effect = f"the model has learnt them by heart: {train:.0%} right in training, {evaluated:.0%} in evaluation"
    else:
        return None  # the noise is withstood
    only_here = held is not None and disputed > MORE * max(held, 0.01)
    return wrong(
        f"{disputed:.0%} of the training rows carry another label than their neighbours agree on"
        f"{f', in evaluation {held:.0%}' if held is not None else ''}, and {effect}",
        fix="check the disputed rows and relabel or drop them; label smoothing and early stopping soften the rest",
        because={"disputed": disputed, "eval_disputed": held or 0.0, "train_score": train, "eval_score": evaluated},
        confidence=SURE if only_here else SUSPECTED,
        where=samples.targets_where or samples.where,
        layer="data",
        explains=("overfitting",),
    )


def _fell(scores: Scores | None) -> tuple[float, float] | None:
    """The best held-out score and the last one, where the last is clearly lower; medians of three rounds each."""
    rounds = [one for one in scores.rounds if one.score is not None] if scores and scores.measure == "accuracy" else []
    if len(rounds) < 6:
        return None
    middles = [sorted(one.score or 0.0 for one in rounds[at : at + 3])[1] for at in range(len(rounds) - 2)]
    best, last = max(middles), middles[-1]
    chance = (best * (1 - best) / max(1, rounds[-1].rows)) ** 0.5
    return (best, last) if best - last >= max(FALL, DEVIATIONS * chance) else None


def _scores(*values: float) -> Scores:
    rounds = tuple(Round(at=20 * at, score=value, loss=None, rows=450) for at, value in enumerate(values, 1))
    return Scores(measure="accuracy", rounds=rounds)


SICK = (
    (healthy(disputed=0.27, eval_disputed=0.015, neighbours=0.5, train_score=0.95, eval_score=0.75),),
    (
        healthy(disputed=0.15, eval_disputed=0.015, neighbours=0.47, train_score=0.74, eval_score=0.79),
        _scores(0.7, 0.9, 0.94, 0.95, 0.95, 0.93, 0.9, 0.86, 0.83, 0.8, 0.79),
    ),
)
# Clean; a fifth is noise and the training withstands it; classes that overlap on both sides are a suspicion at most.
WELL = (
    (healthy(),),
    (healthy(disputed=0.18, eval_disputed=0.015, neighbours=0.65, train_score=0.78, eval_score=0.95),),
    (
        healthy(disputed=0.18, eval_disputed=0.015, neighbours=0.65, train_score=0.78, eval_score=0.95),
        _scores(0.7, 0.9, 0.94, 0.96, 0.95, 0.94, 0.95, 0.95),
    ),
)
