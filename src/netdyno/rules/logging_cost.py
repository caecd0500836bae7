"""Writing things down takes the time.

Looks for:  logging in a fiftieth of a step or more: a workload's declared log, a script's calls of known loggers.
Matters:    it runs in every step and teaches nothing more than every hundredth would.
Try:        log every n-th step, keep values as tensors and read them together, write from another thread.
Not this:   values read inside forward or loss (see `hidden-syncs`).
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Chore, Chores, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.02  # nothing is learnt from it, and the edit is one line: cheaper to cure than most
ENOUGH = 0.01  # a log of every hundredth step shows the same curve


@rule(suggests=())
def logging_cost(timeline: StepTimeline, chores: Chores | None) -> Finding | None:
    share = timeline.share("log")
    if share < WORTH_A_WORD:
        return None
    log = timeline.phases["log"]
    worst = chores.worst("log") if chores is not None else None
    often = _often(worst, chores)
    return Finding(
        says=f"logging takes {share:.0%} of a step, {log.blocked / log.own:.0%} of that waiting for a file or a network{_most(worst)}",
        layer="compute",
        # Every hundredth step keeps a hundredth of the cost, where it was logged in each; one in ten, a tenth.
        saves=Saving(low=share * max(0.0, 1 - ENOUGH / often), high=share),
        because={"log_s": log.own, "log_blocked_s": log.blocked, "step_s": timeline.step.own, "logs_per_step": often},
        fix="log every hundredth step" if often > ENOUGH else "write less at a time, or from another thread",
        where=worst.where if worst is not None else None,
    )


def _often(worst: Chore | None, chores: Chores | None) -> float:
    """Logs per step, at most one: a workload declares the log of every step."""
    if worst is None or chores is None or not chores.updates or not worst.count:
        return 1.0
    return min(1.0, worst.count / chores.updates)


def _most(worst: Chore | None) -> str:
    if worst is None or worst.where is None:
        return ""
    return f"; most of it in {os.path.basename(worst.where.file or '?')}:{worst.where.line}"


def _timeline(log: Split) -> StepTimeline:
    work = Split(running=0.010)
    return StepTimeline(steps=10, step=work + log, phases={"forward": work, "log": log})


def _chores(count: int) -> Chores:
    line = Chore(what="log", where=Place(file="train.py", line=59), count=count, seconds=0.02, share=0.15)
    return Chores(chores=(line,), updates=100)


SICK = (
    (_timeline(Split(blocked=0.002)),),
    (_timeline(Split(running=0.002)),),
    (_timeline(Split(running=0.002)), _chores(100)),
)
WELL = ((_timeline(Split(running=0.0001)),), (_timeline(Split(running=0.0001)), _chores(1)))
