"""Updating the parameters takes the time.

Looks for:  the optimizer in a seventh of the step or more.
Matters:    it reads and writes every parameter and its state once, whatever the batch; many small tensors
            cost a call each on top.
Try:        a fused or foreach optimizer, gradients set to None, a larger batch (fewer updates per sample).
Not this:   a whole step of many small calls (see `python-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import MemoryAccount, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import rule, spinning

# Fused updates run up to 3.5 times as fast, so a seventh of a step is what can still give a tenth of it.
WORTH_A_WORD = 1 / 7


@rule(suggests=("fused-optimizer", "foreach-optimizer"), stage="nature")
def optimizer_bound(
    timeline: StepTimeline, account: MemoryAccount | None, ceilings: Ceilings | None, threads: ThreadUse | None
) -> Finding | None:
    share = timeline.share("optimizer")
    if share < WORTH_A_WORD:
        return None
    seconds = timeline.phases["optimizer"].own
    least = least_seconds(account, ceilings)
    return Finding(
        says=f"updating the parameters takes {share:.0%} of a step{_against(least, seconds)}",
        layer="optimisation",
        # No update can be quicker than one pass over parameters, gradients and state.
        saves=Saving(low=0.0, high=share * max(0.0, 1 - least / seconds)),
        because={"optimizer_s": seconds, "least_s": least, "step_s": timeline.step.own},
        # Threads that spin in a short update can make it look long.
        confidence=0.5 if spinning(threads) else 1.0,
        fix="use the fused form of the optimizer (`fused=True`), or `foreach=True` where there is none",
    )


def least_seconds(account: MemoryAccount | None, ceilings: Ceilings | None) -> float:
    """How long the memory needs for one update at least; 0 when nothing is known about it."""
    if account is None or ceilings is None or not ceilings.bandwidth:
        return 0.0
    # Parameters and state are read and written, gradients are read.
    return (2 * account.parameters + 2 * account.optimizer_state + account.gradients) / ceilings.bandwidth


def _against(least: float, seconds: float) -> str:
    return f"; the memory could do it in {least / seconds:.0%} of that" if least else ""


def _timeline(optimizer: float) -> StepTimeline:
    phases = {"forward": Split(running=0.010), "optimizer": Split(running=optimizer)}
    return StepTimeline(steps=10, step=Split(running=0.010 + optimizer), phases=phases)


SICK = ((_timeline(0.005),),)
WELL = ((_timeline(0.0005),),)
