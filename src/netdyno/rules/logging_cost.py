"""Writing things down takes the time.

Looks for:  the declared logging of a step in a fiftieth of it or more.
Matters:    it runs in every step and teaches nothing more than every hundredth would.
Try:        log every n-th step, keep values as tensors and read them together, write from another thread.
Not this:   values read inside forward or loss (see `hidden-syncs`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.02  # nothing is learnt from it, and the edit is one line: cheaper to cure than most


@rule(suggests=())
def logging_cost(timeline: StepTimeline) -> Finding | None:
    share = timeline.share("log")
    if share < WORTH_A_WORD:
        return None
    log = timeline.phases["log"]
    return Finding(
        says=f"logging takes {share:.0%} of a step, {log.blocked / log.own:.0%} of that waiting for a file or a network",
        layer="compute",
        # Every hundredth step keeps a hundredth of the cost.
        saves=Saving(low=0.99 * share, high=share),
        because={"log_s": log.own, "log_blocked_s": log.blocked, "step_s": timeline.step.own},
        fix="log every hundredth step",
    )


def _timeline(log: Split) -> StepTimeline:
    work = Split(running=0.010)
    return StepTimeline(steps=10, step=work + log, phases={"forward": work, "log": log})


SICK = ((_timeline(Split(blocked=0.002)),), (_timeline(Split(running=0.002)),))
WELL = ((_timeline(Split(running=0.0001)),),)
