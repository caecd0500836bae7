"""A sample holds numbers that are none, and the loss is lost with them.

Looks for:  NaN or infinity in the rows that go into the model, which sample and feature it is, and losses that are lost.
Matters:    one such row makes the loss of its batch NaN, and one step with that makes every weight NaN.
Try:        drop or repair the sample; check the data set once, before training.
Not this:   weights that diverge first (inputs stay finite then); missing values that the model masks itself.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Place
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import CERTAIN, healthy, wrong


@rule(stage="data")
def non_finite_sample(samples: Samples) -> Finding | None:
    # Where every loss stays finite the model handles missing values, and on purpose.
    if not samples.bad_rows or not samples.losses_lost:
        return None
    where = samples.where or Place()
    sample = "" if samples.bad_sample is None else f" (sample {samples.bad_sample} of the data set)"
    return wrong(
        f"{samples.bad_rows} input row{'s' if samples.bad_rows > 1 else ''}{sample} hold NaN or infinity, first in feature "
        f"{samples.bad_feature} at update {samples.bad_first}; {samples.losses_lost} losses were lost with them",
        fix="drop or repair that sample, and guard the transform that makes it (log of 0, division by 0)",
        because={
            "rows": float(samples.bad_rows),
            "times": float(samples.bad_times),
            "losses_lost": float(samples.losses_lost),
        },
        confidence=CERTAIN,
        where=Place(file=where.file, line=where.line, sample=samples.bad_sample, step=samples.bad_first),
        explains=("non-finite-forward", "non-finite-backward"),
        remedies=remedy("repair-inputs"),
    )


SICK = ((healthy(bad_rows=1, bad_times=3, bad_sample=77, bad_feature=5, bad_first=12, losses_lost=400),),)
# Fine data; missing values that the model masks; a divergence with finite inputs.
WELL = ((healthy(),), (healthy(bad_rows=40, bad_times=800, bad_feature=2, bad_first=0),), (healthy(losses_lost=100),))
