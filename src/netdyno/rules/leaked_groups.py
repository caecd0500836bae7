"""Evaluation rows have siblings among the training rows.

Looks for:  evaluation rows with a few training rows far nearer than all others, whose labels tell theirs, while the next
            nearest rows tell clearly less.
Matters:    several records of one subject were split by chance: the score is of subjects that the model knows.
Try:        split by subject: `GroupShuffleSplit`, `GroupKFold`, or chosen ids on one side.
Not this:   rows that are equal (`duplicated-samples`); rows that lie close because there are many of them: then the next nearest
            tell as much.
"""

import math

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, wrong

# Among rows of a plain collection some have a near neighbour by chance; where most have, records come in groups.
MOST = 0.5
# What siblings must tell more than strangers do: points of accuracy or of explained variance, and beyond chance.
MORE, DEVIATIONS = 0.05, 4.0


@rule(stage="data")
def leaked_groups(samples: Samples) -> Finding | None:
    near, beyond = samples.near_agree, samples.beyond_agree
    if samples.near_rows is None or samples.near_rows < MOST or near is None or beyond is None or not samples.floating:
        return None
    if samples.joint or near - beyond < max(MORE, DEVIATIONS * _chance(samples, beyond)):
        return None
    return wrong(
        f"{samples.near_rows:.0%} of the evaluation rows have siblings in training, far nearer than any other row: these give the label "
        f"with {near:.0%}, the next nearest with {beyond:.0%}",
        fix="split by what the siblings share (subject, page, recording), not by row",
        because={"rows": samples.near_rows, "siblings": near, "others": beyond},
        confidence=SURE,
        where=samples.split_where or samples.whole_where or samples.eval_where,
        layer="generalisation",
    )


def _chance(samples: Samples, share: float) -> float:
    """The deviation of a share of so many rows."""
    share = min(max(share, 0.1), 0.9)
    return math.sqrt(share * (1 - share) / max(1.0, samples.eval_distinct * (samples.near_rows or 0.0)))


SICK = (
    (healthy(near_rows=0.98, near_agree=1.0, beyond_agree=0.87),),
    (healthy(task="numbers", near_rows=0.9, near_agree=0.99, beyond_agree=-0.4),),
)
# Nobody near; near by chance, and the others tell as much; siblings that do not matter; too few rows to tell.
WELL = (
    (healthy(),),
    (healthy(near_rows=0.1, near_agree=1.0, beyond_agree=0.6),),
    (healthy(near_rows=0.9, near_agree=0.98, beyond_agree=0.97),),
    (healthy(near_rows=0.9, near_agree=0.95, beyond_agree=0.85, eval_distinct=50),),
)
