"""Each update waits until what it wrote has reached the disk.

Looks for:  `os.fsync` in nearly every update, in a twentieth of the time.
Matters:    a flush waits for the disk itself, milliseconds each, while nothing is trained.
Try:        leave it to the system, which writes within seconds, or flush once an epoch.
Not this:   a checkpoint that is made safe at the end of an epoch.
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, ScriptTrace
from netdyno.records.growth import Repeated, Waste
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

NEARLY = 0.8
WORTH_A_WORD = 0.05


@rule(suggests=())
def flushed_files(waste: Waste, trace: ScriptTrace) -> Finding | None:
    worst = max(waste.fsyncs, key=lambda one: one.seconds, default=None)
    if worst is None or not trace.span_s or worst.times < NEARLY * max(1, worst.updates):
        return None
    share = min(1.0, worst.seconds / trace.span_s)
    if share < WORTH_A_WORD:
        return None
    at = f" ({os.path.basename(worst.where.file or '?')}:{worst.where.line})" if worst.where is not None else ""
    return Finding(
        says=f"a file is flushed to the disk {worst.times} times in {worst.updates} updates, which takes {share:.0%} of the time{at}",
        layer="compute",
        saves=Saving(low=share / 2, high=share),
        because={"flushes": float(worst.times), "seconds": worst.seconds, "span_s": trace.span_s},
        fix="leave `os.fsync` out, or flush once an epoch",
        where=worst.where,
        confidence=0.95,
        explains=("costly-line", "logging-cost"),
        remedies=remedy("leave-flushing-out"),
    )


def _case(times: int, seconds: float) -> tuple[Waste, ScriptTrace]:
    one = Repeated(what="fsync", where=Place(file="train.py", line=57), times=times, updates=500, seconds=seconds)
    trace = ScriptTrace(
        attached="",
        processes=1,
        updates=500,
        counted_by="optimizer",
        cycle=1,
        events=(),
        optimizers=(),
        span_s=6.0,
        own_s=0.0,
        unattributed=0.0,
    )
    return Waste(updates=500, cores=2, threads=1, fsyncs=(one,)), trace


SICK = (_case(500, 2.0),)
WELL = (_case(20, 2.0), _case(500, 0.01))
