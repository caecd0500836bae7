"""More threads than cores, or more than pay: they wait for one another instead of computing.

Looks for:  a step that was measured to be faster with fewer threads, or threads of model and loader workers
            that exceed the cores while they wait for one.
Matters:    threads that meet at a barrier are as slow as the last of them; on a full machine they lose severalfold.
Try:        fewer threads, one thread per loader worker, passive waiting.
Not this:   other programs that take the cores (see `contended-machine`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import ThreadUse
from netdyno.rules._base import rule

WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for
WAITS = 0.05  # threads that have cores of their own wait for less than a twentieth of the time


@rule(suggests=("threads", "wait-policy"))
def oversubscribed_threads(use: ThreadUse) -> Finding | None:
    threads = use.torch_threads + use.workers * use.worker_threads
    faster = fewer_and_faster(use)
    crowded = threads > use.cores and use.waiting_share >= WAITS
    if faster is None and not crowded:
        return None
    count, saving = faster or (max(1, use.cores - use.workers), 0.0)
    return Finding(
        says=_sentence(threads, use, count, saving),
        layer="compute",
        # Without a measured count, no more can be won than the time spent waiting for a core.
        saves=Saving(low=0.0, high=saving if faster else use.waiting_share),
        because={
            "threads": float(threads),
            "cores": float(use.cores),
            "waiting_share": use.waiting_share,
            "others_share": use.others_share,
        },
        fix=f"torch.set_num_threads({count}), and one thread in each loader worker",
        # Crowding without a measured better count may still be the neighbours' doing.
        confidence=0.9 if faster or use.others_share < WAITS else 0.5,
    )


def fewer_and_faster(use: ThreadUse) -> tuple[int, float] | None:
    """The smaller thread count with the fastest measured step and the share of a step it saves, if worth it."""
    measured = {int(count): seconds for count, seconds in use.step_seconds_by_threads.items()}
    now = measured.get(use.torch_threads)
    smaller = [(seconds, count) for count, seconds in measured.items() if count < use.torch_threads]
    if not now or not smaller:
        return None
    seconds, count = min(smaller)
    saving = 1 - seconds / now
    return (count, saving) if saving >= WORTH_A_WORD else None


def _sentence(threads: int, use: ThreadUse, count: int, saving: float) -> str:
    if saving:
        return f"a step is {saving:.0%} shorter with {count} of {use.torch_threads} threads"
    return f"{threads} threads share {use.cores} cores and wait for one {use.waiting_share:.0%} of the time"


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


SICK = ((_use(threads=2, _1=0.010, _2=0.020),), (_use(threads=2, workers=4, waiting=0.3),))
# Two threads that pay; many threads that never wait.
WELL = ((_use(threads=2, _1=0.020, _2=0.011),), (_use(threads=2, workers=4, waiting=0.01),))
