"""What measuring itself costs: per reading, per step, and as a step with the stopwatch on against off."""

import random
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Clock, Reading, SilentStopwatch, Stopwatch, between, stopwatch_for, thread_clock
from netdyno.measure.untouched import random_state, untouched
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Split
from netdyno.targets.workload import Workload

SWITCHES = 400  # per batch of phase switches that is timed as a whole


class Overhead(NamedTuple):
    """Running plus blocked seconds per step with the stopwatch on and off, one pair of turns per row."""

    on: tuple[float, ...]
    off: tuple[float, ...]


class Counted:
    """A clock that counts how often it is read."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.readings = 0

    def __call__(self) -> Reading:
        self.readings += 1
        return self.clock()


def switch_cost(clock: Clock | None = None, *, batches: int = 7) -> float:
    """Seconds that one switch of phase costs, the reading included: the median over batches of many."""
    clock = clock or thread_clock()
    watch = Stopwatch(clock)
    watch.start("data")
    costs = []
    for _ in range(batches):
        before = clock()
        for _ in range(SWITCHES):
            watch.phase("data")
        costs.append(between(before, clock()).own / SWITCHES)
    return median(costs)


def own_overhead(counted: Counted, steps: int) -> float:
    """Seconds per step that the stopwatch behind `counted` cost over `steps` steps."""
    return switch_cost(counted.clock) * counted.readings / steps


def stopwatch_cost(workload: Workload, *, seed: int = 0, steps: int = 4) -> float:
    """Seconds per step that the stopwatch costs: its readings in a step of this workload times what one takes."""
    counted = Counted(thread_clock())
    with random_state():
        stepper = Stepper(workload.fresh(seed), Stopwatch(counted))
        try:
            stepper.take(1)
            counted.readings = 0
            stepper.take(steps)
        finally:
            stepper.close()
    return own_overhead(counted, steps)


def overhead(
    workload: Workload,
    *,
    pairs: int = 30,
    steps: int = 4,
    seed: int = 0,
    clock: Clock | None = None,
    listener: Listener = silent,
    watch: Callable[[], Stopwatch] | None = None,
) -> Overhead:
    """One subject stepped in turns with its stopwatch on and off, in random order within each pair.

    An outer clock, read twice per turn, times both sides alike. `watch` makes the stopwatch to be tried
    instead of the default one.
    """
    clock = clock or thread_clock()
    order = random.Random(seed)
    with random_state():
        subject = workload.fresh(seed)
        on = Stepper(subject, watch() if watch is not None else stopwatch_for(subject.device))
        off = Stepper(subject, SilentStopwatch(clock))
        rows: dict[Stepper, list[float]] = {on: [], off: []}
        try:
            with untouched(subject):
                for stepper in (on, off):
                    stepper.take(2)
                for pair in range(pairs):
                    listener(Event("stopwatch on and off", pair, pairs))
                    # Whoever goes second meets warmer caches: the order is drawn anew for each pair.
                    for stepper in order.sample((on, off), 2):
                        rows[stepper].append(_turn(stepper, steps, clock).per(steps).own)
        finally:
            on.close()
            off.close()
    return Overhead(tuple(rows[on]), tuple(rows[off]))


def _turn(stepper: Stepper, steps: int, clock: Clock) -> Split:
    watch = stepper.stopwatch
    watch.clear()
    before = clock()
    watch.start("data")
    for _ in range(steps):
        stepper.step()
        watch.phase("data")
    watch.stop()
    return between(before, clock())
