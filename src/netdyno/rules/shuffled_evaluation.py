"""Evaluation draws from the random numbers that training uses.

Looks for:  a loader that is only evaluated on, shuffled from the global generator, in a script that sets the same seed
            again after training to repeat it.
Matters:    how often one evaluates changes which batches and which dropout masks come next: runs of one seed differ.
Try:        no shuffling in evaluation, and a generator of its own for the training loader.
Not this:   a script that sets its seed once, an unshuffled loader, or one with its own generator.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import EvaluatedLoader, EvaluationRounds
from netdyno.rules._base import rule

# Whoever sets the same seed twice again compares runs.
COMPARED = 2


@rule(stage="use")
def shuffled_evaluation(rounds: EvaluationRounds) -> Finding | None:
    shuffled = [loader for loader in rounds.loaders if loader.shuffled and not loader.own_generator]
    if not shuffled or not rounds.seeded_again:
        return None
    passes = sorted({loader.passes for loader in shuffled})
    return Finding(
        says=f"the same seed is set {rounds.seeded_again + 1} times to repeat a training, and evaluation shuffles {shuffled[0].samples} samples "
        f"with the same generator ({', '.join(map(str, passes))} passes): how often it runs changes what training draws next",
        layer="reproducibility",
        saves=Saving(low=0.0, high=0.0),
        because={
            "seeded_again": float(rounds.seeded_again),
            "loaders": float(len(shuffled)),
            "passes": float(passes[-1]),
        },
        fix="don't shuffle for evaluation, and give the training loader a `generator` of its own",
        where=shuffled[0].where,
        confidence=0.8 if rounds.seeded_again >= COMPARED and len(passes) > 1 else 0.5,
    )


def _rounds(*passes: int, again: int = 2, shuffled: bool = True, own: bool = False) -> EvaluationRounds:
    loaders = tuple(
        EvaluatedLoader(
            samples=300, batch_size=100, rows=300, drop_last=False, shuffled=shuffled, own_generator=own, passes=count
        )
        for count in passes
    )
    return EvaluationRounds(updates=100, rounds=(), loaders=loaders, seeded_again=again)


SICK = ((_rounds(6, 3, 1),), (_rounds(6, 6, again=1),))
WELL = ((_rounds(6, again=0),), (_rounds(6, shuffled=False),), (_rounds(6, own=True),))
