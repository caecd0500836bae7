"""Rows of evaluation are training rows.

Looks for:  rows that are equal, number by number, in training and in evaluation, where training rows among themselves differ.
Matters:    the model knows these rows by heart; the score is better than it will be on anything new.
Try:        remove duplicates before the split; split by what rows have in common.
Not this:   the training set evaluated again as a whole; rows that the model knows no better than others;
            inputs with few possible values, which repeat anyway.
"""

import math

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, SUSPECTED, healthy, wrong

# A pair of equal rows in a hundred is met in honest collections; twenty rows in a hundred-odd are copied.
SHARE, ROWS = 0.04, 8
# If most of it is training rows the script may well evaluate all rows on purpose.
ALL = 0.7
# Columns that two different rows hardly ever share by chance.
COLUMNS = 4


@rule(stage="data")
def duplicated_samples(samples: Samples) -> Finding | None:
    if not samples.floating or samples.features < COLUMNS or not samples.eval_distinct or samples.overlap < ROWS:
        return None
    share = samples.overlap / samples.eval_distinct
    if share < SHARE or (share < 5 * samples.repeated and not _rich(samples)):
        return None
    known = samples.overlap_score is not None and samples.rest_score is not None
    if known and (samples.overlap_score or 0.0) <= (samples.rest_score or 0.0):
        return None  # the model has no advantage from them
    better = ""
    if known:
        better = f"; of these {samples.overlap_score:.0%} are answered right, of the others {samples.rest_score:.0%}"
    return wrong(
        f"{samples.overlap} of {samples.eval_distinct} evaluation rows ({share:.0%}) are also training rows{better}",
        fix="drop duplicates before splitting into training and evaluation",
        because={"rows": float(samples.overlap), "share": share, "score_on_them": samples.overlap_score or 0.0,
                 "score_on_others": samples.rest_score or 0.0},
        confidence=CERTAIN if share < ALL else SUSPECTED,
        where=samples.whole_where or samples.eval_where,
        layer="generalisation",
    )  # fmt: skip


def _rich(samples: Samples) -> bool:
    """Whether features tell so much that rows that are equal are copies: three times what numbers each row."""
    return samples.bits is not None and samples.bits >= 3 * math.log2(samples.train_distinct + 2)


SICK = (
    (healthy(overlap=140, eval_distinct=450, overlap_score=1.0, rest_score=0.93),),
    (healthy(overlap=200, eval_distinct=600, repeated=0.2, bits=150.0),),
)
# None; a few; no better on them than on the others; inputs that repeat anyway; ids.
WELL = (
    (healthy(),),
    (healthy(overlap=6, eval_distinct=450),),
    (healthy(overlap=64, eval_distinct=512, overlap_score=0.39, rest_score=0.4),),
    (healthy(overlap=300, eval_distinct=450, repeated=0.5, bits=7.0),),
    (healthy(overlap=300, floating=False),),
)
