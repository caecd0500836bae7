"""The whole model is copied in nearly every update.

Looks for:  deep copies of all weights, as many as updates or nearly, in a twentieth of the time.
Matters:    each copy takes memory as large as the model and is thrown away by the next one.
Try:        make one copy before training and change it in place: `average.lerp_(weight, 0.01)` under `no_grad`, or
            `torch.optim.swa_utils.AveragedModel`.
Not this:   the best model so far, copied when it was found; one copy an epoch.
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LineCosts, ParameterUse, Place, ScriptTrace
from netdyno.records.growth import Repeated, Waste
from netdyno.rules._base import rule

NEARLY = 0.8
WORTH_A_WORD = 0.05


@rule(suggests=())
def copied_model(waste: Waste, use: ParameterUse, trace: ScriptTrace, lines: LineCosts | None) -> Finding | None:
    worst = max(waste.copies, key=lambda one: one.times, default=None)
    if worst is None or not use.parameters or not trace.span_s:
        return None
    copies = worst.times / use.parameters
    if copies < NEARLY * max(8, waste.updates):
        return None
    weights = worst.seconds / trace.span_s
    # Copying a module is much more than copying its weights.
    line = sum(one.share for one in lines.lines if one.where == worst.where) if lines is not None else 0.0
    high = min(1.0, max(weights, line))
    if high < WORTH_A_WORD:
        return None
    at = f" ({os.path.basename(worst.where.file or '?')}:{worst.where.line})" if worst.where is not None else ""
    return Finding(
        says=f"the model was copied {copies:.0f} times in {waste.updates} updates, which takes {high:.0%} of the time{at}",
        layer="memory",
        saves=Saving(low=high / 2, high=high),
        because={"copies": copies, "updates": float(waste.updates), "share": high},
        fix="copy it once, and move that copy in place",
        where=worst.where,
        confidence=0.9,
        explains=("costly-line",),
    )


def _case(times: int, seconds: float = 1.0) -> tuple[Waste, ParameterUse, ScriptTrace]:
    one = Repeated(what="copies", where=Place(file="train.py", line=57), times=times, updates=500, seconds=seconds)
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
    return Waste(updates=500, cores=2, threads=1, copies=(one,)), ParameterUse(updates=500, parameters=6), trace


SICK = (_case(3000),)
# The best model of each epoch; no time.
WELL = (_case(120), _case(3000, 0.01))
