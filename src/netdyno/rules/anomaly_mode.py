"""Anomaly mode is on all the time.

Looks for:  `torch.autograd.set_detect_anomaly(True)`, or its like, in nearly every backward pass that was looked at.
Matters:    each operator of the forward pass writes down its stack, and each gradient is searched for NaN: an update
            takes 1.4 to 5 times as long.
Try:        switch it on for the few updates in which a NaN is looked for, and off again.
Not this:   a check of the first updates, or of one that failed.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, StepTimeline
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

LOOKS, NEARLY = 8, 0.9
# 1.4 times as long is what large layers pay, five times what small ones do.
LEAST, MOST = 1 - 1 / 1.4, 1 - 1 / 5
WORK = ("forward", "loss", "backward")


@rule(suggests=())
def anomaly_mode(waste: Waste, timeline: StepTimeline) -> Finding | None:
    if waste.backwards < LOOKS or waste.anomaly < NEARLY * waste.backwards:
        return None
    share = timeline.share(*WORK)
    return Finding(
        says=f"anomaly mode was on in {waste.anomaly} of {waste.backwards} backward passes that were looked at: operators write down"
        f" their stacks, in {share:.0%} of the time",
        layer="compute",
        saves=Saving(low=share * LEAST / 2, high=share * MOST),
        because={"anomaly": float(waste.anomaly), "looks": float(waste.backwards), "share": share},
        fix="take `set_detect_anomaly(True)` out, or leave it to a flag for debugging",
        where=waste.anomaly_where,
        confidence=0.95,
        explains=("python-bound", "compute-bound", "costly-line"),
        remedies=remedy("anomaly-mode-off"),
    )


def _case(on: int, looks: int) -> tuple[Waste, StepTimeline]:
    step = Split(running=0.01)
    where = Place(file="train.py", line=9)
    waste = Waste(updates=100, cores=2, threads=1, anomaly=on, backwards=looks, anomaly_where=where)
    return waste, StepTimeline(steps=100, step=step, phases={"forward": step})


SICK = (_case(30, 30),)
WELL = (_case(0, 30), _case(5, 30), _case(3, 3))
