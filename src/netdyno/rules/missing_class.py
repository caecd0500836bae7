"""A class that evaluation asks for is not in the training data.

Looks for:  a label with several rows in evaluation and none in training, which the model never answers.
Matters:    the model cannot know it; its score is lower by that class's share, whatever else is done.
Try:        split by class (stratified), and look at the filter that lost it.
Not this:   rare classes with a row or two; tasks whose classes are new by design, where nothing has an output for them.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, SUSPECTED, healthy, wrong

# Of a class with this many rows here and thirty times as many rows in training one would be there.
ROWS = 5


@rule(stage="data")
def missing_class(samples: Samples) -> Finding | None:
    trained, asked = samples.train_labels, samples.eval_labels
    if samples.task != "classes" or samples.joint or sum(trained) < 100:
        return None
    share = [n / max(1, sum(asked)) for n in asked]
    missing = [
        kind
        for kind, count in enumerate(asked)
        if count >= ROWS
        and (kind >= len(trained) or trained[kind] == 0)
        and share[kind] * sum(trained) >= 20
        and samples.outputs is not None
        and kind < max(samples.outputs, 2)
    ]
    if not missing:
        return None
    unknown = all(kind < len(samples.recall) and samples.recall[kind] == 0 for kind in missing)
    lost = sum(share[kind] for kind in missing)
    names = ", ".join(str(kind) for kind in missing[:5])
    return wrong(
        f"class {names} has {sum(asked[kind] for kind in missing)} rows in evaluation and 0 in training: "
        f"{lost:.0%} of the answers are wrong for that alone",
        fix="split with all classes on both sides (stratify), and check what filters the training rows",
        because={"classes": float(len(missing)), "share": lost},
        confidence=CERTAIN if unknown else SUSPECTED,
        where=samples.targets_where or samples.where,
        explains=("label-shift", "overfitting", "covariate-shift"),
    )


_NINE = (133, 136, 133, 137, 136, 136, 136, 0, 131, 135)

SICK = ((healthy(train_labels=_NINE, recall=(0.98,) * 7 + (0.0, 0.98, 0.98), eval_score=0.88),),)
# All there; a class with two rows in evaluation.
WELL = ((healthy(),), (healthy(train_labels=_NINE, eval_labels=(45,) * 7 + (2, 45, 45)),))
