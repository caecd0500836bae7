"""A file is opened anew for each sample.

Looks for:  one file that was opened dozens of times while batches were made, where that takes a fifth of the time.
Matters:    opening finds the file, reads its header and throws both away: more work than reading one sample of it.
Try:        open it once, in the data set's first access (so that each worker has its own handle), or map it to memory.
Not this:   a file for each sample, which has to be opened; a data set that is read once.
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, StepTimeline
from netdyno.records.growth import Repeated, Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule

OFTEN = 64
WORTH_A_WORD = 0.20


@rule(suggests=())
def reopened_files(waste: Waste, timeline: StepTimeline) -> Finding | None:
    worst = max(waste.opens, key=lambda one: one.times, default=None)
    share = timeline.share("data", "collate")
    if worst is None or worst.times < max(OFTEN, waste.updates) or share < WORTH_A_WORD:
        return None
    at = f" ({os.path.basename(worst.where.file or '?')}:{worst.where.line})" if worst.where is not None else ""
    return Finding(
        says=f"`{worst.what}` was opened {worst.times} times while batches were made, which takes {share:.0%} of the time{at}",
        layer="data",
        saves=Saving(low=share / 4, high=share),
        because={"opens": float(worst.times), "updates": float(waste.updates), "share": share},
        fix="open the file once and keep the handle, or map it to memory (`np.load(..., mmap_mode='r')`, `np.memmap`)",
        where=worst.where,
        confidence=0.9,
        explains=("input-bound", "idle-overlap", "costly-line"),
    )


def _case(times: int, data: float = 0.01) -> tuple[Waste, StepTimeline]:
    one = Repeated(what="digits.npy", where=Place(file="train.py", line=20), times=times, updates=100)
    phases = {"data": Split(running=data), "forward": Split(running=0.005)}
    timeline = StepTimeline(steps=100, step=Split(running=data + 0.005), phases=phases)
    return Waste(updates=100, cores=2, threads=1, opens=(one,)), timeline


SICK = (_case(6400),)
# A file for each sample; a file that is read once an epoch; opened often, and no time.
WELL = (_case(1), _case(20), _case(6400, data=0.0001))
