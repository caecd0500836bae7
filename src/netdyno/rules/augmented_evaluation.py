"""Validation data are augmented at random.

Looks for:  the first batch of a validation loader with the same labels in the same order as in the first pass, and other
            inputs.
Matters:    the score is one of distorted data, lower than it should be and another one each time; the best epoch is
            the luckiest.
Try:        a data set without random transforms for validation; a split of one data set shares its transforms.
Not this:   a shuffled loader (its labels move too), a loader that also trains, changes that don't move the answers.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.rules._base import rule

# Of the answers' spread over rows, or choices that change.
MATERIAL, FLIPS = 0.1, 0.02


@rule(stage="data")
def augmented_evaluation(answers: Consistency) -> Finding | None:
    moved = [model for model in answers.models if _moved(model)]
    if not moved:
        return None
    worst = max(moved, key=lambda model: model.input_change or 0.0)
    flips = f", and {worst.answer_flips:.0%} of its choices" if worst.answer_flips else ""
    return Finding(
        says=f"validation inputs change from pass to pass while their labels stay ({worst.changed} of {worst.compared} passes, by "
        f"{worst.input_change or 0:.0%} of their spread): a random transform runs on validation data, and moves the answers by "
        f"{worst.answer_change or 0:.0%} of their spread{flips}",
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={
            "compared": float(worst.compared),
            "changed": float(worst.changed),
            "input_change": worst.input_change or 0.0,
            "answer_change": worst.answer_change or 0.0,
        },
        fix="give the validation set a data set of its own, without the random transform",
        where=worst.loader_where or worst.where,
        confidence=0.9 if worst.compared > 1 else 0.75,
    )


def _moved(model: ModelConsistency) -> bool:
    if not model.compared or model.changed < model.compared:
        return False
    return (model.answer_change or 0.0) >= MATERIAL or (model.answer_flips or 0.0) >= FLIPS


def _answer(**fields: object) -> Consistency:
    known: dict[str, object] = {
        "model": "Net",
        "compared": 11,
        "changed": 11,
        "input_change": 0.6,
        "answer_change": 0.9,
        "answer_flips": 0.4,
    }
    return Consistency(models=(ModelConsistency(**(known | fields)),))  # type: ignore[arg-type]


SICK = ((_answer(),), (_answer(compared=1, changed=1),))
# The same inputs; some passes only (a curriculum); changes that move nothing; never compared.
WELL = (
    (_answer(changed=0),),
    (_answer(changed=5),),
    (_answer(answer_change=0.01, answer_flips=0.0),),
    (_answer(compared=0, changed=0),),
)
