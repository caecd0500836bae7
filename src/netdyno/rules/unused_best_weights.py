"""The best weights are kept in memory and never used.

Looks for:  weights that are copied whenever the validation loss is smaller than ever, no copy on disk, none loaded back
            at the end, and a last round that is clearly worse than the best one.
Matters:    what the script ends with, saves or reports is the last model and not its best.
Try:        `model.load_state_dict(best_state)` after the loop.
Not this:   a copy on disk for another program, a last round as good as the best, weights loaded back.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import EvaluationRound, EvaluationRounds
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Beyond what a validation loss moves by from round to round when nothing is learnt.
WORSE = 1.15
ROUNDS = 4


@rule(stage="use")
def unused_best_weights(rounds: EvaluationRounds) -> Finding | None:
    seen = [one for one in rounds.rounds if one.loss is not None and one.rows]
    kept = [one for one in seen if one.kept]
    if (
        len(seen) < ROUNDS
        or not kept
        or rounds.restored
        or any(one.to_disk for one in seen[:-1])
        or len(kept) == len(seen)
    ):
        return None
    best, last = kept[-1].loss or 0.0, seen[-1].loss or 0.0
    if not _lowest(seen) or kept[-1] is seen[-1] or not 0 < WORSE * best < last:
        return None
    return Finding(
        says=f"the best weights (validation loss {best:.3g}, after update {kept[-1].update}) are copied and never loaded back: the script ends "
        f"with those of loss {last:.3g}",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={"best_loss": best, "last_loss": last, "rounds": float(len(seen))},
        fix="load the best state into the model after the loop: `model.load_state_dict(best_state)`",
        where=rounds.kept_where,
        confidence=0.8,
        remedies=remedy("stop-training", after=max(1, kept[-1].update)),
    )


def _lowest(seen: list[EvaluationRound]) -> bool:
    """Whether exactly the rounds whose loss was smaller than ever were kept."""
    best = float("inf")
    for one in seen:
        lower = one.loss is not None and one.loss < best
        if lower != one.kept:
            return False
        best = min(best, one.loss if one.loss is not None else best)
    return True


def _rounds(
    last: float, *, restored: bool = False, to_disk: bool = False, kept: tuple[int, ...] = (0, 1, 2)
) -> EvaluationRounds:
    losses = (2.0, 1.0, 0.5, 0.7, last)
    rows = tuple(
        EvaluationRound(
            update=place, batches=2, rows=100, loss=loss, kept=place in kept, to_disk=to_disk and place in kept
        )
        for place, loss in enumerate(losses)
    )
    return EvaluationRounds(updates=100, rounds=rows, restored=restored)


SICK = ((_rounds(1.5),),)
WELL = (
    (_rounds(1.5, restored=True),),
    (_rounds(1.5, to_disk=True),),
    (_rounds(0.51),),
    (_rounds(1.5, kept=()),),
    (_rounds(1.5, kept=(0, 1, 2, 3, 4)),),
)
