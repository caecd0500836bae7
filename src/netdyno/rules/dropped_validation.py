"""Validation leaves a part of its data out.

Looks for:  a loader that is only evaluated on, made with `drop_last=True`, whose last batch is a good part of the data.
Matters:    the score is one of some of the data; with a large batch it is of few of them, or of none.
Try:        `drop_last=False` where nothing is trained.
Not this:   a training loader, a rest of nothing, a rest too small to move the score.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import EvaluatedLoader, EvaluationRounds
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# A twentieth of the data can move an accuracy by points; a hundredth cannot be told from noise.
FOUND, SUSPECTED = 0.05, 0.02


@rule(stage="data")
def dropped_validation(rounds: EvaluationRounds) -> Finding | None:
    loaders = [loader for loader in rounds.loaders if loader.drop_last and _lost(loader) >= SUSPECTED]
    if not loaders:
        return None
    worst = max(loaders, key=_lost)
    return Finding(
        says=f"validation scores {worst.rows} of {worst.samples} samples: `drop_last` leaves {_lost(worst):.0%} of them out",
        layer="data",
        saves=Saving(low=0.0, high=0.0),
        because={"rows": float(worst.rows), "samples": float(worst.samples), "batch_size": float(worst.batch_size)},
        fix="pass `drop_last=False` to the validation loader",
        where=worst.where,
        confidence=0.9 if _lost(worst) >= FOUND else 0.5,
        remedies=remedy("keep-last-batch"),
    )


def _lost(loader: EvaluatedLoader) -> float:
    return 1 - loader.rows / loader.samples if loader.samples else 0.0


def _rounds(samples: int, batch: int, drop: bool = True) -> EvaluationRounds:
    loader = EvaluatedLoader(
        samples=samples,
        batch_size=batch,
        rows=samples - (samples % batch if drop else 0),
        drop_last=drop,
        shuffled=False,
        own_generator=False,
    )
    return EvaluationRounds(updates=100, rounds=(), loaders=(loader,))


SICK = ((_rounds(450, 256),), (_rounds(200, 256),), (_rounds(1000, 60),))
WELL = (
    (_rounds(450, 256, False),),
    (_rounds(512, 256),),
    (_rounds(10_001, 100),),
    (EvaluationRounds(updates=9, rounds=()),),
)
