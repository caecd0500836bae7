"""The machine is busy, not the model: steps wait for a core that somebody else has.

Looks for:  a tenth or more of wall time spent ready to run without a core, while other programs use
            the machine.
Matters:    wall-clock numbers of this run say more about the neighbours than about the model. Trials judge
            running and blocked time, which stays right.
Try:        another hour or another machine; end what need not run beside it.
Not this:   the run's own threads in each other's way (see `oversubscribed-threads`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import MachineState, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.10  # a quiet machine shows one or two per cent
OTHERS = 0.10  # a tenth of the machine is more than its own housekeeping


@rule(suggests=(), stage="note")
def contended_machine(
    timeline: StepTimeline, threads: ThreadUse | None, machine: MachineState | None
) -> Finding | None:
    wall = timeline.step.wall
    share = timeline.step.waiting / wall if wall else 0.0
    if share < WORTH_A_WORD or (threads is not None and threads.others_share < OTHERS):
        return None
    because = {"waiting_s": timeline.step.waiting, "step_wall_s": wall}
    if threads is not None:
        because["others_share"] = threads.others_share
    if machine is not None:
        because["load"] = machine.load
    return Finding(
        says=f"the machine is busy: {share:.0%} of wall time waits for a core that others have{_used(threads)}",
        layer="reproducibility",
        saves=Saving(low=0.0, high=0.0),
        because=because,
        fix="nothing in the model; measure on a quieter machine when wall time itself matters",
        # Without a look at the other processes, the run's own threads may be the ones in the way.
        confidence=0.9 if threads is not None else 0.5,
    )


def _used(threads: ThreadUse | None) -> str:
    return f"; other programs use {threads.others_share:.0%} of it" if threads is not None else ""


def _case(*, waiting: float, others: float) -> tuple[StepTimeline, ThreadUse]:
    step = Split(running=0.010, waiting=waiting)
    use = ThreadUse(
        torch_threads=1,
        interop_threads=1,
        cores=2,
        workers=0,
        worker_threads=1,
        waiting_share=waiting / step.wall,
        others_share=others,
    )
    return StepTimeline(steps=10, step=step, phases={"forward": step}), use


SICK = (_case(waiting=0.010, others=0.9), _case(waiting=0.010, others=0.9)[:1])
# A quiet machine; the run's own threads.
WELL = (_case(waiting=0.0001, others=0.9), _case(waiting=0.010, others=0.0))
