"""The model is right under other class names.

Looks for:  evaluation rows that are mostly wrong, and mostly right once the class names are exchanged one for one, while
            training rows are right as they are.
Matters:    training and evaluation number the classes differently: the score says nothing of the model.
Try:        one mapping from names to numbers, made once, saved with the model and used everywhere.
Not this:   a model that has not learnt, confusions without a pattern, few rows for many classes.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.records.samples import Samples
from netdyno.rules._base import rule

# Right under other names, and far from right as they are.
RIGHT, GAIN = 0.7, 0.3
# With fewer rows per class some exchange of names fits by chance.
ROWS_PER_CLASS = 6


@rule(stage="data")
def permuted_classes(answers: Consistency, samples: Samples | None = None) -> Finding | None:
    found = [model for model in answers.models if _permuted(model)]
    if not found:
        return None
    worst = found[0]
    return Finding(
        says=f"evaluation is right in {worst.accuracy:.0%} of {worst.rows} rows, and in {worst.permuted_accuracy:.0%} once class numbers are "
        f"exchanged one for one: training ({worst.train_accuracy:.0%} right) and evaluation number the {worst.classes} classes differently",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "accuracy": worst.accuracy or 0.0,
            "permuted_accuracy": worst.permuted_accuracy or 0.0,
            "train_accuracy": worst.train_accuracy or 0.0,
        },
        fix="make one mapping from class names to numbers and use it for training, evaluation and serving",
        where=(samples.eval_targets_where if samples is not None else None) or worst.where,
        confidence=0.9,
    )


def _permuted(model: ModelConsistency) -> bool:
    if model.accuracy is None or model.permuted_accuracy is None or model.train_accuracy is None:
        return False
    enough = model.rows >= ROWS_PER_CLASS * model.classes
    better = model.permuted_accuracy >= RIGHT and model.permuted_accuracy - model.accuracy >= GAIN
    return enough and better and model.train_accuracy - model.accuracy >= GAIN


def _answer(**fields: object) -> Consistency:
    known: dict[str, object] = {
        "model": "Net",
        "rows": 128,
        "classes": 10,
        "accuracy": 0.1,
        "permuted_accuracy": 0.95,
        "train_accuracy": 0.97,
    }
    return Consistency(models=(ModelConsistency(**(known | fields)),))  # type: ignore[arg-type]


SICK = ((_answer(),),)
WELL = (
    (_answer(accuracy=0.95),),
    (_answer(permuted_accuracy=0.3),),
    (_answer(rows=30),),
    (_answer(accuracy=None),),
    (_answer(train_accuracy=0.1),),
)
