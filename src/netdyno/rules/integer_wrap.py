"""Whole numbers ran below zero and came out at 255.

Looks for:  inputs on 256 equal steps that fill both ends and leave a wide gap in the middle.
Matters:    what is a little darker than the mean becomes the brightest there is; neighbouring values are torn apart.
Try:        convert to float before subtracting.
Not this:   pictures in two colours (two values), ordinary pictures (no gap).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, wrong

# A few odd pixels at one end are no wrap.
SHARE = 0.02


@rule(stage="data")
def integer_wrap(samples: Samples) -> Finding | None:
    if samples.wrapped is None or samples.wrapped < SHARE or not samples.floating:
        return None
    return wrong(
        f"inputs fill both ends of 256 levels and nothing in between, {samples.wrapped:.0%} of the values on the smaller side: "
        f"unsigned numbers ran below 0 and wrapped around",
        fix="convert to float (or a signed type) before subtracting",
        because={"smaller_side": samples.wrapped},
        confidence=SURE,
        where=samples.whole_where or samples.where,
        explains=("unscaled-features",),
    )


SICK = ((healthy(levels=255, wrapped=0.4),),)
WELL = ((healthy(),), (healthy(levels=255, wrapped=None),), (healthy(levels=255, wrapped=0.001),))
