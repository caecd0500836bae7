"""The worst weights are kept as the best.

Looks for:  weights that are copied or saved after evaluations exactly when the validation loss is larger than ever, and
            not when it is smaller than ever.
Matters:    what is restored or shipped is among the worst of the run, and stopping early stops at the wrong time.
Try:        `<` in the comparison and infinity as the first value; `mode="min"` for a loss.
Not this:   weights kept every round, by an accuracy that rises while the loss does, or a few rounds only; a file that is written
            once because it is there (see `stale-weights`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import EvaluationRound, EvaluationRounds
from netdyno.rules._base import rule

# Rounds that say so, and records of the right kind that were passed over.
ROUNDS, PASSED = 4, 2


@rule(stage="use")
def wrong_best_direction(rounds: EvaluationRounds) -> Finding | None:
    seen = [one for one in rounds.rounds if one.loss is not None and one.rows]
    kept = {place for place, one in enumerate(seen) if one.kept}
    highest, lowest = _records(seen, 1), _records(seen, -1)
    if len(seen) < ROUNDS or not kept or kept != highest or len(lowest - kept) < PASSED or _accuracy_agrees(seen, kept):
        return None
    # Only the first ones: that also is what becomes of a file that is written once.
    if len(kept) == 1 and not rounds.kept_compared:
        return None
    last = max(kept)
    best = min(one.loss for one in seen if one.loss is not None)
    held = seen[last].loss or 0.0
    return Finding(
        says=f"weights are kept when the validation loss is larger than ever: of {len(seen)} rounds the kept one has loss {held:.3g}, the best "
        f"{best:.3g}",
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={
            "rounds": float(len(seen)),
            "kept_loss": held,
            "best_loss": best,
            "passed_over": float(len(lowest - kept)),
        },
        fix="turn the comparison round: a loss is better when it is smaller (start from infinity)",
        where=rounds.kept_where,
        confidence=0.9 if len(lowest - kept) > PASSED else 0.75,
        explains=("stale-weights",),
    )


def _records(seen: list[EvaluationRound], sign: int) -> set[int]:
    best, places = float("-inf"), set()
    for place, one in enumerate(seen):
        if one.loss is not None and sign * one.loss > best:
            best = sign * one.loss
            places.add(place)
    return places


def _accuracy_agrees(seen: list[EvaluationRound], kept: set[int]) -> bool:
    """Whether the kept rounds are those in which the accuracy was best: then it was asked for, and not the loss."""
    best, places = float("-inf"), set()
    for place, one in enumerate(seen):
        if one.accuracy is not None and one.accuracy > best:
            best = one.accuracy
            places.add(place)
    return len(places) > 1 and kept <= places | {0} and len(kept) > 1


def _rounds(
    losses: tuple[float, ...],
    kept: tuple[int, ...],
    accuracies: tuple[float | None, ...] = (),
    *,
    compared: bool = False,
) -> EvaluationRounds:
    rows = tuple(
        EvaluationRound(
            update=place,
            batches=2,
            rows=100,
            loss=loss,
            kept=place in kept,
            accuracy=accuracies[place] if accuracies else None,
        )
        for place, loss in enumerate(losses)
    )
    return EvaluationRounds(updates=100, rounds=rows, kept_compared=compared)


SICK = (
    (_rounds((2.0, 1.0, 0.8, 0.6, 0.5, 0.7), (0,), compared=True),),
    (_rounds((2.0, 2.1, 1.0, 0.8, 0.6), (0, 1)),),
)
# A file that is written once; the best is kept; all are kept; the last is kept; by accuracy while the loss rises.
WELL = (
    (_rounds((2.0, 1.0, 0.8, 0.6, 0.5, 0.7), (0,)),),
    (_rounds((2.0, 1.0, 0.8, 0.6, 0.5, 0.7), (0, 1, 2, 3, 4)),),
    (_rounds((2.0, 1.0, 0.8, 0.6), (0, 1, 2, 3)),),
    (_rounds((2.0, 1.0, 0.8, 0.6, 0.5), (4,)),),
    (_rounds((0.5, 0.6, 0.4, 0.7, 0.3), (0, 1, 3), (0.5, 0.6, 0.55, 0.7, 0.6)),),
    (_rounds((2.0, 1.0, 0.8), ()),),
)
