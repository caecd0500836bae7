"""A checkpoint is written in nearly every update.

Looks for:  one line that saves in four of five updates or more, and takes a twentieth of the time.
Matters:    training waits until all weights are written, and the next update makes them old.
Try:        save every so many minutes, or when the validation score is the best so far.
Not this:   one checkpoint an epoch, or a large one now and then.
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Chore, Chores, Place
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

NEARLY = 0.8
WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for
UPDATES = 16


@rule(suggests=())
def frequent_saving(chores: Chores) -> Finding | None:
    worst = chores.worst("save")
    if worst is None or chores.updates < UPDATES or worst.count < NEARLY * chores.updates or worst.share < WORTH_A_WORD:
        return None
    at = f" ({os.path.basename(worst.where.file or '?')}:{worst.where.line})" if worst.where is not None else ""
    return Finding(
        says=f"a checkpoint was saved {worst.count} times in {chores.updates} updates, which takes {worst.share:.0%} of the time{at}",
        layer="compute",
        saves=Saving(low=worst.share / 2, high=min(1.0, worst.share)),
        because={"saves": float(worst.count), "updates": float(chores.updates), "seconds": worst.seconds},
        fix="save once an epoch, or every few minutes",
        where=worst.where,
        confidence=0.95,
        explains=("costly-line",),
        remedies=remedy("save-less", every=max(2, chores.updates // 4)),
    )


def _chores(count: int, share: float) -> Chores:
    line = Chore(what="save", where=Place(file="train.py", line=60), count=count, seconds=1.0, share=share)
    return Chores(chores=(line,), updates=100)


SICK = ((_chores(100, 0.4),),)
WELL = ((_chores(4, 0.4),), (_chores(100, 0.01),), (Chores(chores=(), updates=100),))
