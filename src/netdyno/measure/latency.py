"""Times calls that answer rows: seconds of each, the caller's own share, and what the machine did meanwhile. Needs no torch."""

import time
from collections.abc import Callable
from typing import NamedTuple

from netdyno.measure import host
from netdyno.measure.stopwatch import Clock, Neighbourhood, between, thread_clock

CpuClock = Callable[[], float]
# Calls before a burst that are not counted: caches are cold after whoever ran before.
UNCOUNTED = 2


class Burst(NamedTuple):
    """Some calls in a row. `seconds` are wall seconds of each; `own` seconds per call that are not waiting for a core.

    `cpu` is CPU time per call over all threads of this process; `foreign` the share of the allowed cores that other programs had.
    """

    seconds: tuple[float, ...]
    own: float
    cpu: float
    foreign: float


def burst(
    call: Callable[[int], object],
    *,
    seconds: float,
    least: int = 3,
    most: int = 100_000,
    clock: Clock | None = None,
    cpu_clock: CpuClock = time.process_time,
) -> Burst:
    """Call `call(i)`, i = 0, 1, …, for about so many seconds, at least `least` times.

    The calling thread's waiting for a core is taken away from its wall time, as in a training step. Some runtimes answer on a thread
    of their own while the caller is blocked: what that thread waited for a core is taken away from the caller's blocked time. With several
    threads that wait for each other in a spin no such account is right: trust `own` of those only where `foreign` is small.
    """
    clock = clock or thread_clock()
    around = Neighbourhood()
    for i in range(UNCOUNTED):
        call(i)
    before, cpu_before = around.read(), cpu_clock()
    began = last = clock()
    taken: list[float] = []
    while len(taken) < most and (len(taken) < least or (last.wall - began.wall) / 1e9 < seconds):
        call(UNCOUNTED + len(taken))
        now = clock()
        taken.append((now.wall - last.wall) / 1e9)
        last = now
    cpu = cpu_clock() - cpu_before
    split = between(began, last)
    beside = around.read().since(before)
    delay = max((waited for _, waited in beside.tasks.values()), default=0.0)
    own = split.running + max(0.0, split.blocked - delay)
    busy = beside.busy
    whole = split.wall * host.cores()
    foreign = min(1.0, max(0.0, busy - cpu) / whole) if busy is not None and whole else 0.0
    return Burst(tuple(taken), own / len(taken), cpu / len(taken), foreign)


def elapsed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Wall seconds of one call: a load, a first answer, an export."""
    began = clock()
    work()
    return clock() - began
