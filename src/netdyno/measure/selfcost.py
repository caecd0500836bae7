"""What measuring itself costs: its readings in a step, and a step with the stopwatch on against off."""

import random
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from netdyno.measure.step import Stepper, turning
from netdyno.measure.stopwatch import Clock, SilentStopwatch, Stopwatch, between, stopwatch_for, thread_clock
from netdyno.measure.untouched import random_state, untouched
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Split
from netdyno.targets.workload import Workload

T = TypeVar("T")
WEIGHED_TURNS = 3  # one alone may meet a tick of the machine's


class Overhead(NamedTuple):
    """Running plus blocked seconds per step with the stopwatch on and off, one pair of turns per row."""

    on: tuple[float, ...]
    off: tuple[float, ...]


class Weighed(Generic[T]):
    """A clock, or anything else that is read, which weighs its own readings where they are taken.

    In a loop of its own a reading is several times cheaper than between the operators of a step, because the operators
    leave nothing of it in the caches: only its cost in place is true. It is weighed in time on a core, so that a
    reading during which the thread was put aside weighs no more than another.
    """

    def __init__(self, read: Callable[[], T], core_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self.read = read
        self.core_ns = core_ns
        self.costs: list[int] = []

    def __call__(self) -> T:
        before = self.core_ns()
        reading = self.read()
        self.costs.append(self.core_ns() - before)
        return reading

    def clear(self) -> None:
        """Forget what was weighed."""
        self.costs.clear()

    def total(self) -> float:
        """Seconds on a core that all readings cost."""
        return sum(self.costs) / 1e9


class Cost(NamedTuple):
    """Seconds on a core that measuring costs: the readings of a step, and the two looks around a whole turn."""

    step: float
    turn: float

    def per_step(self, steps: int) -> float:
        """All of it, for each step of a turn of `steps`."""
        return self.step + self.turn / steps


def cost(workload: Workload, *, seed: int = 0, steps: int = 8) -> Cost:
    """What measuring costs in turns of `steps` steps of this workload, weighed in place.

    The stopwatch is read at the border of every phase, and twice per turn what goes on beside the steps.
    """
    weighed = Weighed(thread_clock())
    with random_state():
        stepper = Stepper(workload.fresh(seed), Stopwatch(weighed))
        beside = stepper.beside = Weighed(stepper.beside)
        try:
            stepper.take(1)
            weighed.clear()
            beside.clear()
            for _ in range(WEIGHED_TURNS):
                stepper.take(steps)
        finally:
            stepper.close()
    return Cost(step=weighed.total() / (steps * WEIGHED_TURNS), turn=beside.total() / WEIGHED_TURNS)


def stopwatch_cost(workload: Workload, *, seed: int = 0, steps: int = 8) -> float:
    """Seconds per step that measuring costs in a turn of `steps` steps, the looks around it included."""
    return cost(workload, seed=seed, steps=steps).per_step(steps)


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
    """One subject stepped in turns with all that measures on and off, in random order within each pair.

    On is a turn as trials take it; off are the same steps, bare. An outer clock, read twice per turn, times both sides alike. `watch` makes the stopwatch to be tried
    instead of the default one.
    """
    clock = clock or thread_clock()
    order = random.Random(seed)
    with random_state():
        subject = workload.fresh(seed)
        # One stepper for both sides: two would have a loader each, and two loaders alone differ by a per cent.
        stepper = Stepper(subject, watch() if watch is not None else stopwatch_for(subject.device))
        sides = {"on": stepper.stopwatch, "off": SilentStopwatch(clock)}
        rows: dict[str, list[float]] = {side: [] for side in sides}
        try:
            with untouched(subject):
                stepper.take(2)
                for pair in range(pairs):
                    listener(Event("stopwatch on and off", pair, pairs))
                    # Whoever goes second meets warmer caches: the order is drawn anew for each pair.
                    for side in order.sample(list(sides), 2):
                        stepper.stopwatch = sides[side]
                        rows[side].append(_turn(stepper, steps, clock, watched=side == "on").per(steps).own)
        finally:
            stepper.close()
    return Overhead(tuple(rows["on"]), tuple(rows["off"]))


def _turn(stepper: Stepper, steps: int, clock: Clock, *, watched: bool) -> Split:
    before = clock()
    if watched:
        stepper.take(steps)
    else:
        with turning(stepper.subject):
            losses = [stepper.step() for _ in range(steps)]
        # A turn hands its losses over as numbers: on a device, reading them waits for its work on either side.
        [float(loss) for loss in losses]
    return between(before, clock())
