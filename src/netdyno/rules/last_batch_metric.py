"""What is printed as the score of an evaluation is that of its last batch.

Looks for:  rounds of evaluation over several batches after which the loss or accuracy of the last batch was printed,
            to all its digits, and that of the whole round was not.
Matters:    the last batch is small and always the same: the score is noisy, and its best epoch is a matter of luck.
Try:        sums over all batches, divided by the number of rows.
Not this:   a round of one batch, a printed mean, a few rounds in which numbers meet by chance.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.learning import LossCurve
from netdyno.records.modes import EvaluationRound, EvaluationRounds
from netdyno.rules._base import rule

# That a number of three digits meets another by chance happens once in a hundred rounds, and not four times.
ROUNDS, SHARE = 4, 0.8
# Two calls in a round may be two data sets, each with its own number: the test set's comes last, and is printed beside the training set's.
BATCHES = 3


@rule(stage="use")
def last_batch_metric(rounds: EvaluationRounds, curve: LossCurve | None = None) -> Finding | None:
    if rounds.printed < ROUNDS or rounds.printed_last < SHARE * rounds.printed or rounds.printed_mean:
        return None
    if not rounds.rounds or max(one.batches for one in rounds.rounds) < BATCHES:
        return None
    off = [
        abs(one.last_loss - one.loss) / abs(one.loss) for one in rounds.rounds if one.loss and one.last_loss is not None
    ]
    return Finding(
        says=f"the score that is printed is that of the last batch, in {rounds.printed_last} of {rounds.printed} rounds"
        + (f"; its loss is {max(off):.0%} off the round's at worst" if off else ""),
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={"printed": float(rounds.printed), "printed_last": float(rounds.printed_last)},
        fix="add up over all batches and divide by the number of rows",
        where=_loss(curve) or rounds.printed_where,
        confidence=0.9,
    )


def _loss(curve: LossCurve | None) -> Place | None:
    """The line that takes the loss of an evaluation's batch, where it would be added up."""
    held = [one.where for one in curve.evaluations if not one.trains] if curve is not None else []
    return held[0] if held else None


def _rounds(printed: int, last: int, mean: int, batches: int = 8) -> EvaluationRounds:
    each = (EvaluationRound(update=100, batches=batches, rows=50 * batches, loss=0.4, last_loss=0.5),)
    return EvaluationRounds(updates=100, rounds=each, printed=printed, printed_last=last, printed_mean=mean)


SICK = ((_rounds(10, 10, 0),), (_rounds(10, 9, 0),))
WELL = (
    (_rounds(10, 0, 10),),
    (_rounds(10, 1, 9),),
    (_rounds(2, 2, 0),),
    (_rounds(10, 9, 1),),
    (_rounds(5, 5, 0, batches=2),),
)
