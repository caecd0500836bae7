"""Threads against cores, and whether fewer or more threads would be faster.

Measures:         torch's thread counts, loader workers and the cores this process may use; the share of wall time that
                  its threads wait for a core; the share of the machine that other programs use; seconds of an update
                  with one thread, with doubling counts up to the cores, and with the present count, in turns.
Costs:            its share of the budget; thread counts are not compared when an update is too slow for that.
Leaves no trace:  the thread count is set back, the subject trains on, and is put back afterwards.
"""

import contextlib
import os
import random
from statistics import median
from typing import Any

import psutil
import torch

from netdyno.measure import host
from netdyno.measure.step import Stepper, one_batch, train_on, turning
from netdyno.measure.stopwatch import Clock, between, thread_clock
from netdyno.probes._base import probe, watch_for
from netdyno.records.evidence import ThreadUse
from netdyno.records.measured import Turn
from netdyno.targets.subject import Subject

ROUNDS = (3, 15)  # fewer than three turns per count say nothing; more than fifteen nothing new


@probe
def collect(subject: Subject, *, clock: Clock | None = None, steps: int = 10, budget_s: float = 2.0) -> ThreadUse:
    clock = clock or thread_clock()
    stepper = Stepper(subject, watch_for(subject, clock))
    try:
        stepper.take(1)
        usage = Usage()
        turn = stepper.take(steps)
        others = usage.others()
    finally:
        stepper.close()
    workers = subject.feed.workers
    return ThreadUse(
        torch_threads=_present(subject),
        interop_threads=torch.get_num_interop_threads(),
        cores=host.cores(),
        workers=workers,
        worker_threads=1 if workers else 0,  # torch gives each loader worker one
        waiting_share=waiting_share(turn, _present(subject) - 1 + workers),
        others_share=others,
        step_seconds_by_threads=_by_threads(subject, one_batch(subject), clock, budget_s / 2),
    )


def waiting_share(turn: Turn, others: int) -> float:
    """The larger of two: what the stepping thread waited, and what the others did on average."""
    wall = turn.time.wall
    of_others = min(1.0, turn.others_waiting / (wall * others)) if wall and others > 0 else 0.0
    return max(turn.waiting_share, of_others)


class Usage:
    """The machine's use of its cores since it was made, by this run and by all others."""

    def __init__(self) -> None:
        self.before = (_machine_seconds(), _own_seconds())

    def others(self) -> float:
        """The share of all cores' time that other programs used; 0.0 where the system does not say."""
        (busy, total), own = self.before
        (busy_now, total_now), own_now = _machine_seconds(), _own_seconds()
        if total_now <= total:
            return 0.0
        return min(1.0, max(0.0, (busy_now - busy) - (own_now - own)) / (total_now - total))


def counts(present: int, cores: int) -> list[int]:
    """Thread counts worth comparing: doubling up to the cores, and the present one.

    >>> counts(present=6, cores=8)
    [1, 2, 4, 6, 8]
    """
    doubling = {1 << power for power in range(cores.bit_length()) if 1 << power <= cores}
    return sorted(doubling | {present, cores})


def _by_threads(subject: Subject, batch: Any, clock: Clock, budget_s: float) -> dict[str, float]:
    present = _present(subject)
    before = torch.get_num_threads()
    chosen = counts(present, host.cores())
    times: dict[int, list[float]] = {count: [] for count in chosen}
    order = random.Random(0)
    if len(chosen) < 2 or subject.device.type != "cpu":
        return {}
    began = clock()
    try:
        with turning(subject):
            for done in range(ROUNDS[1]):
                # Each count meets what the count before it left behind: the order is drawn anew for each round.
                for count in order.sample(chosen, len(chosen)):
                    times[count].append(_seconds(subject, batch, clock, count))
                elapsed = (clock().wall - began.wall) / 1e9
                if done + 1 >= ROUNDS[0] and elapsed >= budget_s:
                    break
                if elapsed * ROUNDS[0] / (done + 1) > 3 * budget_s:
                    return {}  # three rounds would take far more than there is
    finally:
        torch.set_num_threads(before)
    return {str(count): median(seconds) for count, seconds in times.items()}


def _present(subject: Subject) -> int:
    """Threads inside operators while the subject steps."""
    with turning(subject):
        return torch.get_num_threads()


def _seconds(subject: Subject, batch: Any, clock: Clock, threads: int) -> float:
    torch.set_num_threads(threads)
    train_on(subject, batch)  # threads that were just made are not yet awake
    before = clock()
    train_on(subject, batch)
    return between(before, clock()).own


def _machine_seconds() -> tuple[float, float]:
    """Seconds that all cores were busy, and seconds in all, since the machine was started."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
        total, idle = sum(ticks), ticks[3] + ticks[4]
        rate = os.sysconf("SC_CLK_TCK")
        return (total - idle) / rate, total / rate
    return 0.0, 0.0


def _own_seconds() -> float:
    """Seconds on a core of this process and of its descendants that still live."""
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total
