"""A part of the data set is never used.

Looks for:  rows of a data set that no loader over it gave to the model, over several passes.
Matters:    the model learns from fewer samples than there are, and nobody notices.
Try:        check the sampler, the data set's length, and loops that stop early.
Not this:   a split of one data set between loaders, random changes to samples, one batch learnt by heart on purpose.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import LoaderRows, Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, loader, wrong

# Splits leave out a tenth or a fifth of a data set for later.
USED = 0.7
# Over as many passes a shuffled loader with an early stop has given nearly everything.
PASSES = 3


@rule(stage="data")
def partial_coverage(samples: Samples) -> Finding | None:
    one = next((one for one in samples.loaders if _leaves_out(one)), None)
    if one is None or one.covered is None:
        return None
    return wrong(
        f"in {one.passes} passes {one.covered:.0%} of the data set's rows were used; the rest never comes",
        fix="let sampler, length and loop cover the whole data set",
        because={"covered": one.covered, "rows": float(one.rows), "passes": float(one.passes)},
        confidence=SURE,
        where=one.where,
        layer="data",
        explains=("overfitting", "frozen-shuffle"),
    )


def _leaves_out(one: LoaderRows) -> bool:
    if one.iterable or one.one_batch or one.passes < PASSES or one.covered is None or one.ranks > 1:
        return False
    # Equal rows in the data set count once in what was used; where rows repeat within a pass nobody can tell.
    return one.covered < USED and one.distinct > 0.98 * one.rows


SICK = ((healthy(loaders=(loader(rows=320, distinct=320, ever=320, covered=0.24),)),),)
# All of it; augmented; a single batch on purpose; one pass only.
WELL = (
    (healthy(),),
    (healthy(loaders=(loader(covered=None, ever=9000),)),),
    (healthy(loaders=(loader(covered=0.05, one_batch=True),)),),
    (healthy(loaders=(loader(covered=0.3, passes=1),)),),
)
