"""More threads than cores, or more than pay: they wait for one another instead of computing.

Looks for:  a step that was measured to be faster with fewer threads, threads of model and loader workers that exceed
            the cores which other programs leave free, and wait for one, or twice as many threads as there are cores
            where the script itself asks for them.
Matters:    threads that meet at a barrier are as slow as the last of them; on a full machine they lose severalfold.
Try:        fewer threads, one thread per loader worker, passive waiting.
Not this:   other programs that take the cores (see `contended-machine`).
"""

from typing import NamedTuple

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, ScriptTrace, StepTimeline, ThreadUse
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule, spinning
from netdyno.rules._remedies import remedy

WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for
WAITS = 0.05  # threads that have cores of their own wait for less than a twentieth of the time
TWICE = 2  # threads per core that nobody asks for on purpose: half of them wait whatever the neighbours do
SPARE = 0.5  # half a core more or less is what the system's own work comes and goes by


@rule(suggests=("threads", "wait-policy"))
def oversubscribed_threads(
    use: ThreadUse, timeline: StepTimeline, trace: ScriptTrace | None, waste: Waste | None = None
) -> Finding | None:
    threads = use.torch_threads + use.workers * use.worker_threads
    faster = fewer_and_faster(use)
    # Thread counts were compared on the update alone; data are no faster for it.
    work = timeline.share("forward", "loss", "backward", "optimizer")
    saving = work * faster.saves if faster is not None else 0.0
    free = use.cores * (1 - use.others_share)
    # No other count was tried in a script. Threads that would have their cores if others left them are not to blame.
    most = use.cores if trace is not None else 1
    crowded = threads > most and threads >= free + SPARE and use.waiting_share >= WAITS
    asked = _asked(use, waste) and use.waiting_share >= WAITS
    if saving < WORTH_A_WORD and not crowded and not asked:
        return None
    count = faster.threads if faster is not None else max(1, round(free) - use.workers)
    proven = saving >= WORTH_A_WORD
    return Finding(
        says=_faster(use, count, saving) if proven else _too_many(use) if asked else _crowded(use, threads, free),
        layer="compute",
        # Without a measured count the bound is wide: what threads run at barriers for others may be nearly all work.
        saves=Saving(low=0.0, high=saving if proven else (work if spinning(use) else use.waiting_share)),
        because={
            "threads": float(threads),
            "cores": float(use.cores),
            "waiting_share": use.waiting_share,
            "others_share": use.others_share,
        },
        fix=f"torch.set_num_threads({count}), and one thread in each loader worker",
        # Crowding without a measured better count may still be the neighbours' doing.
        confidence=0.9 if proven or asked or use.others_share < WAITS else 0.5,
        where=waste.threads_where if asked and waste is not None else None,
        explains=("contended-machine", "compute-bound", "python-bound", "optimizer-bound") if asked else (),
        remedies=remedy("set-threads", threads=count),
    )


def _asked(use: ThreadUse, waste: Waste | None = None) -> bool:
    """Whether the script itself asks for at least two threads for each core."""
    return (
        waste is not None and (waste.threads_set or 0) >= TWICE * use.cores and waste.threads_set == use.torch_threads
    )


def _too_many(use: ThreadUse) -> str:
    return (
        f"the script asks for {use.torch_threads} threads on {use.cores} core{'s' * (use.cores > 1)}: they wait for one another and for a core"
        f" {use.waiting_share:.0%} of the time"
    )


class Faster(NamedTuple):
    """A smaller thread count and the share of an update that it saves."""

    threads: int
    saves: float


def fewer_and_faster(use: ThreadUse) -> Faster | None:
    """The smaller thread count with the fastest measured update, if any was faster than the present one."""
    measured = {int(count): seconds for count, seconds in use.step_seconds_by_threads.items()}
    now = measured.get(use.torch_threads)
    smaller = [(seconds, count) for count, seconds in measured.items() if count < use.torch_threads]
    if not now or not smaller:
        return None
    seconds, count = min(smaller)
    return Faster(count, 1 - seconds / now) if seconds < now else None


def _faster(use: ThreadUse, count: int, saving: float) -> str:
    return f"with {count} of {use.torch_threads} threads a step is {saving:.0%} shorter"


def _crowded(use: ThreadUse, threads: int, free: float) -> str:
    return f"{threads} threads share {free:.1f} free cores and wait for one {use.waiting_share:.0%} of the time"


def _use(*, threads: int, waiting: float = 0.0, others: float = 0.0, workers: int = 0, **measured: float) -> ThreadUse:
    return ThreadUse(
        torch_threads=threads,
        interop_threads=1,
        cores=2,
        workers=workers,
        worker_threads=1,
        waiting_share=waiting,
        others_share=others,
        step_seconds_by_threads={count.strip("_"): seconds for count, seconds in measured.items()},
    )


def _timeline(data: float) -> StepTimeline:
    phases = {"data": Split(blocked=data), "forward": Split(running=0.020)}
    return StepTimeline(steps=10, step=Split(running=0.020, blocked=data), phases=phases)


def _asks(threads: int) -> Waste:
    return Waste(
        updates=24, cores=2, threads=threads, threads_set=threads, threads_where=Place(file="train.py", line=7)
    )


SICK = (
    (_use(threads=64, waiting=0.9, others=0.5), _timeline(0.0), _asks(64)),
    (_use(threads=2, _1=0.010, _2=0.020), _timeline(0.0)),
    (_use(threads=2, workers=4, waiting=0.3), _timeline(0.0)),
    (_use(threads=2, waiting=0.5, others=0.5), _timeline(0.0)),
)
# Two threads that pay; threads that never wait; one that waits for other programs; an update that fewer threads would halve, in a step of mostly data.
WELL = (
    (_use(threads=2, _1=0.020, _2=0.011), _timeline(0.0)),
    (_use(threads=2, workers=4, waiting=0.01), _timeline(0.0)),
    (_use(threads=1, waiting=0.6, others=0.9), _timeline(0.0)),
    (_use(threads=1, waiting=0.6, others=0.9), _timeline(0.0), _asks(1)),
    (_use(threads=2, _1=0.010, _2=0.020), _timeline(0.500)),
)
