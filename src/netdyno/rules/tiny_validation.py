"""The validation set is too small for what is read from it.

Looks for:  a few dozen rows that a classifier is evaluated on again and again, beside hundreds of training rows.
Matters:    one row more or less right moves the score by whole points; which epoch or setting is better is chance.
Try:        hold out more rows, or cross-validate.
Not this:   a few rows printed as examples (nothing judges them), small data sets as a whole, rows of which only some were read.
"""

import math

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# Half the width of the 95 % interval of an accuracy of 0.8; at 30 rows it is 14 points either way.
ROWS = 40
# Where training has no more than ten times as many there is nothing to hold out.
TIMES = 10
ROUNDS = 3


@rule(stage="use")
def tiny_validation(samples: Samples) -> Finding | None:
    # Of large rows only some are read.
    rows = max(samples.eval_distinct, samples.eval_round or 0)
    judged = samples.task == "classes" and samples.eval_score is not None and sum(samples.eval_labels) > 0
    if not judged or samples.joint or not 4 <= rows <= ROWS or samples.eval_rounds < ROUNDS:
        return None
    if samples.train_distinct < TIMES * rows:
        return None
    score = samples.eval_score or 0.0
    # Wilson's interval, which stays within 0 and 1.
    z = 1.96
    centre = (score + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z * math.sqrt(score * (1 - score) / rows + z * z / (4 * rows * rows)) / (1 + z * z / rows)
    return wrong(
        f"validation has {rows} rows: each is {1 / rows:.1%} of the score, which lies somewhere between {centre - half:.0%} and "
        f"{min(1.0, centre + half):.0%}",
        fix=f"hold out more than {rows} of the rows ({samples.train_distinct} are trained on), or cross-validate",
        because={"rows": float(rows), "half_width": half, "training_rows": float(samples.train_distinct)},
        confidence=SURE if rows <= 30 else SUSPECTED,
        where=samples.split_where or samples.eval_where,
        layer="generalisation",
    )


SICK = ((healthy(eval_distinct=20, eval_labels=(2,) * 10, eval_score=0.9),),)
WELL = (
    (healthy(),),
    (healthy(eval_distinct=5, eval_rounds=1, eval_labels=(1, 1, 1, 1, 1), eval_score=0.8),),
    (healthy(eval_distinct=30, eval_round=450, eval_labels=(3,) * 10, eval_score=0.9),),
    (healthy(eval_distinct=30, train_distinct=120, eval_labels=(3,) * 10, eval_score=0.9),),
)
