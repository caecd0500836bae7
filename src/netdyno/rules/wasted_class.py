"""Labels begin at 1, and the model has an output for a class 0 that does not exist.

Looks for:  cross-entropy over K + 1 outputs whose labels were 1 to K in every look, all of them.
Matters:    one output is only ever pushed down, and whoever reads the classes is off by one.
Try:        subtract 1 from the labels and give the model K outputs.
Not this:   a class 0 that is left out on purpose (`ignore_index`), vocabularies, classes that are rare.
"""

from typing import Any

from netdyno.records.calls import LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, losses, training, used

PER_CLASS = 10  # labels seen for each class: a class as frequent as the others would have been among them


@rule(stage="loss")
def wasted_class(losses: LossCalls, samples: Samples | None = None) -> Finding | None:
    for use in training(losses, "cross_entropy", "nll_loss"):
        classes, targets = use.classes or 0, use.times * (use.target_shape[0] if use.target_shape else 0)
        if len(use.input_shape) != 2 or use.shifted or use.ignores == 0 or classes < 3 or targets < PER_CLASS * classes:
            continue
        if use.lowest == 1 and use.target_high == classes - 1 and use.distinct == classes - 1:
            return Finding(
                says=f"labels are 1 to {classes - 1}, all of {targets} looked at, and the model has {classes} outputs: class 0 does not exist",
                layer="data",
                saves=NOTHING,
                because={"outputs": float(classes), "labels": float(use.distinct)},
                fix=f"subtract 1 from the labels, and give the model {classes - 1} outputs",
                where=(samples.targets_where if samples is not None else None) or use.where,
                confidence=LIKELY,
            )
    return None


_FROM_ONE: dict[str, Any] = {
    "classes": 11,
    "lowest": 1.0,
    "target_low": 1.0,
    "target_high": 10.0,
    "distinct": 10,
    "input_shape": (64, 11),
}
SICK = ((losses(used(**_FROM_ONE)),),)
# From 0; ignored on purpose; a vocabulary; seen too seldom; another class is missing too.
WELL = (
    (losses(used(lowest=0.0, distinct=10)),),
    (losses(used(**_FROM_ONE, ignores=0)),),
    (losses(used(**_FROM_ONE, shifted="next")),),
    (losses(used(**(_FROM_ONE | {"times": 1}))),),
    (losses(used(**(_FROM_ONE | {"distinct": 8}))),),
)
