"""Windows of one series lie on both sides of the split, and overlap.

Looks for:  evaluation rows whose numbers go on in a training row, moved by a few places, both before and after them.
Matters:    the model is asked about days whose neighbours it has seen; later data have no such neighbours, and the score falls.
Try:        cut the series at a point in time, train on what comes before it, leave a gap of one window.
Not this:   a cut in time, where only the windows at the cut overlap, on one side; rows with few possible values.
"""

import math

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, wrong

# A cut in time has a few windows on its edge; in a split by chance most windows have neighbours on both sides.
MOST = 0.4


@rule(stage="data")
def overlapping_windows(samples: Samples) -> Finding | None:
    before, after = samples.windows_before or 0.0, samples.windows_after or 0.0
    if min(before, after) < MOST or not samples.floating or not _rich(samples):
        return None
    return wrong(
        f"{before:.0%} of the evaluation rows overlap a training row that begins earlier, and {after:.0%} one that begins later: windows "
        "of one series were split by chance",
        fix="split the series at a point in time, with a gap of one window",
        because={"before": before, "after": after},
        confidence=SURE,
        where=samples.split_where or samples.whole_where or samples.eval_where,
        layer="generalisation",
        explains=("leaked-groups",),
    )


def _rich(samples: Samples) -> bool:
    """Whether features tell so much that equal numbers are the same ones: three times what numbers each row."""
    return samples.bits is not None and samples.bits >= 3 * math.log2(samples.train_distinct + 2)


SICK = ((healthy(windows_before=0.95, windows_after=0.94, bits=90.0),),)
# None; a cut in time; on one side only; pulses, which look alike anywhere.
WELL = (
    (healthy(),),
    (healthy(windows_before=0.05, windows_after=0.0, bits=90.0),),
    (healthy(windows_before=1.0, windows_after=0.02, bits=90.0),),
    (healthy(windows_before=0.95, windows_after=0.94, bits=12.0),),
)
