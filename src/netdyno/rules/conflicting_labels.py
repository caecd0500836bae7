"""Equal inputs carry different labels.

Looks for:  rows that are equal number by number and come with more than one label.
Matters:    one of the labels is wrong, and no model can fit both.
Try:        merge duplicates and settle their label (majority, or a person).
Not this:   inputs with few possible values; several calls to one update; votes of several people, which are told as such.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# Of fewer rows than this nobody would notice the effect.
SHARE, ROWS = 0.03, 8
COLUMNS = 8


@rule(stage="data")
def conflicting_labels(samples: Samples) -> Finding | None:
    if samples.task != "classes" or samples.joint or not samples.floating or samples.features < COLUMNS:
        return None
    share = samples.conflicts / max(1, samples.train_distinct)
    if samples.conflicts < ROWS or share < SHARE or samples.integers > 0.98:
        return None
    held_back = samples.train_score is None or samples.train_score < 1 - share / 4
    return wrong(
        f"{samples.conflicts} of {samples.train_distinct} different inputs ({share:.0%}) come with more than one label",
        fix="remove the duplicates that contradict each other, or settle on one label",
        because={"rows": float(samples.conflicts), "share": share},
        confidence=SURE if held_back else SUSPECTED,
        where=samples.targets_where or samples.where,
        explains=("overfitting", "noisy-labels"),
    )


SICK = ((healthy(conflicts=300, train_score=0.82),),)
WELL = (
    (healthy(),),
    (healthy(conflicts=300, floating=False),),
    (healthy(conflicts=3),),
    (healthy(conflicts=300, features=2),),
)
