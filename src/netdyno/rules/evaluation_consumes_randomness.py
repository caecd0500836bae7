"""How often the model is evaluated decides how it is trained.

Looks for:  two trainings of one script with the same seed, whose losses are equal bit by bit until one of them was evaluated
            more often than the other, and differ from there on.
Matters:    evaluation takes numbers from the generator that training draws from: no result can be repeated under
            another schedule of evaluations.
Try:        a generator of its own for each loader (`generator=`), and no shuffling in evaluation.
Not this:   runs that differ from their first loss on; runs with other settings, which part without any evaluation between.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import RandomUse, SeededRun
from netdyno.rules._base import rule

# Losses that are equal to the last bit, in a row: two trainings that are the same until there.
ALIKE = 5


@rule(stage="use")
def evaluation_consumes_randomness(use: RandomUse) -> Finding | None:
    parted = next((run for run in use.parted if run.same >= ALIKE and run.evaluations != run.other_evaluations), None)
    if parted is None:
        return None
    return Finding(
        says=f"two trainings with seed {parted.seed} are equal for {parted.same} updates and then part, where one had been evaluated "
        f"{max(parted.evaluations, parted.other_evaluations)} times and the other {min(parted.evaluations, parted.other_evaluations)}: "
        "evaluation takes random numbers that training goes on with",
        layer="reproducibility",
        saves=Saving(low=0.0, high=0.0),
        because={"equal_updates": float(parted.same), "last_losses_apart": float(parted.apart or 0.0)},
        fix="give each loader a `generator=` of its own, and don't shuffle in evaluation",
        where=use.where,
        confidence=0.85,
    )


def _use(*, same: int = 24, evaluations: int = 2, other: int = 1) -> RandomUse:
    run = SeededRun(seed=7, same=same, evaluations=evaluations, other_evaluations=other, apart=0.05)
    return RandomUse(seeds=3, rounds=9, parted=(run,), where=Place(file="train.py", line=28))


SICK = ((_use(),),)
# Other settings from the start; parted without any evaluation; one run only.
WELL = ((_use(same=0),), (_use(evaluations=1, other=1),), (RandomUse(seeds=1, rounds=4),))
