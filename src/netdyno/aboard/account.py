"""Where the training thread's time goes: exclusive phases and named gaps that add up to the wall time exactly."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

PHASES = (
    "data",
    "forward",
    "loss",
    "backward",
    "recompute",
    "clip",
    "optimizer",
    "zero_grad",
    "scheduler",
    "sync",
    "save",
    "log",
    "evaluation",
    "netdyno",
)
(
    DATA,
    FORWARD,
    LOSS,
    BACKWARD,
    RECOMPUTE,
    CLIP,
    OPTIMIZER,
    ZERO_GRAD,
    SCHEDULER,
    SYNC,
    SAVE,
    LOG,
    EVALUATION,
    NETDYNO,
) = range(len(PHASES))
# The gap after phase p is phase p + GAP. An evaluation's gaps are evaluation, and so is our own time's gap never seen.
GAP = len(PHASES)
NAMES = (*PHASES, *(f"after {name}" for name in PHASES))
# What is done beside the work: within an evaluation these leave the evaluation on when they end.
ASIDES = frozenset((LOSS, SYNC, SAVE, LOG, SCHEDULER, RECOMPUTE))

# Between the first and the last clock of a reading lie a few µs. Much more means that the thread was put aside in
# between, and its clocks belong to different moments: read again. Thrice, because bad luck may repeat.
TORN_NS = 200_000
TRIES = 3
# Off a core for less than this since the kernel's file was last read: reading it again, which takes up to 15 µs with
# cold caches, would cost more than it tells. What a neighbour takes is more, and what is not seen now is seen later.
UNSEEN_NS = 50_000
# Whoever is put aside is so for longer than this. What is shorter was running, and if a part of it was not, the next
# longer phase makes up for it: half of all boundaries are spared a system call, which costs more than all else there.
SHORT_NS = 20_000


class Reading(NamedTuple):
    """Three clocks of one thread in nanoseconds: wall, on a core, waiting for a core."""

    wall: int
    running: int
    waiting: int


Clock = Callable[[], tuple[int, int, int]]


def thread_clock() -> Clock:
    """A clock for the calling thread and no other. Without the kernel's run delay, waiting reads 0."""
    wall_ns, running_ns, pread = time.perf_counter_ns, time.thread_time_ns, os.pread
    try:
        handle = _Open("/proc/thread-self/schedstat")
        file = handle.number
        waiting = int(pread(file, 64, 0).split()[1])
    except (OSError, IndexError, ValueError):
        return lambda: (wall_ns(), running_ns(), 0)
    off_core = wall_ns() - running_ns()

    def read() -> tuple[int, int, int]:
        nonlocal waiting, off_core
        wall, running = wall_ns(), running_ns()
        if wall - running - off_core > UNSEEN_NS:
            for _ in range(TRIES):
                waiting = int(pread(handle.number, 64, 0).split()[1])
                after = wall_ns()
                if after - wall < TORN_NS:
                    break
                wall, running = after, running_ns()
            off_core = wall - running
        return wall, running, waiting

    return read


class _Open:
    """An open file that closes when nobody needs it any more."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.number)


class Account:
    """Adds up exclusive phases. While it is on, exactly one phase or gap is on; changing it costs one reading.

    >>> ticks = iter([(0, 0, 0), (5, 5, 0), (7, 7, 0), (10, 7, 1)])
    >>> account = Account(lambda: next(ticks))
    >>> account.start(FORWARD); account.push(FORWARD); account.pop(); account.switch(DATA)
    >>> account.phases()["forward"], account.phases()["after forward"]
    ([2, 0, 0], [0, 1, 7])
    """

    __slots__ = (
        "clock", "current", "on", "running", "seen", "since", "stack", "stretches", "total", "waited", "waiting", "wall_ns",
    )  # fmt: skip

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.wall_ns: Callable[[], int] | None = None
        self.current = GAP
        self.on = False
        self.stack: list[int] = []
        self.stretches: Any = None  # filled while somebody looks at the lines that gaps lie between
        self.seen = self.since = self.waited = 0
        self._zero()

    def _zero(self) -> None:
        self.total = [0] * len(NAMES)
        self.running = [0] * len(NAMES)
        self.waiting = [0] * len(NAMES)

    def start(self, after: int = NETDYNO) -> None:
        """Begin to count, on the thread whose work it is, in the gap after phase `after`."""
        if self.clock is None:
            self.clock, self.wall_ns = thread_clock(), time.perf_counter_ns
        self.seen, self.since, self.waited = self.clock()
        self.current = GAP + after
        self.stack.clear()
        self.on = True

    def stop(self) -> None:
        """Count up to now, then no more until `start`."""
        if self.on:
            self.switch(self.current)
            self.on = False
            self.stack.clear()

    def clear(self) -> None:
        """Forget what was counted; the phase that is on stays on."""
        if self.on:
            self.switch(self.current)
        self._zero()

    def switch(self, phase: int) -> None:
        """End what is on and begin `phase`."""
        if not self.on:
            self.current = phase  # who asks what is on gets an answer all the same
            return
        if self.wall_ns is not None:
            wall = self.wall_ns()
            spent = wall - self.seen
            if spent < SHORT_NS:
                ended = self.current
                self.total[ended] += spent
                self.running[ended] += spent
                self.since += spent
                self.seen = wall
                self.current = phase
                return
        assert self.clock is not None
        wall, running, waiting = self.clock()
        # The clocks are not read at one instant, so a part may seem larger than the whole. What is too much here
        # belongs to the phase that follows, whose wall time holds it: carried over, not dropped.
        spent = wall - self.seen
        ran = running - self.since
        if ran > spent:  # noqa: PLR1730  comparisons cost half of what min and max do, and this is on every boundary
            ran = spent
        if ran < 0:  # noqa: PLR1730
            ran = 0
        waited = waiting - self.waited
        if waited > spent - ran:  # noqa: PLR1730
            waited = spent - ran
        if waited < 0:  # noqa: PLR1730
            waited = 0
        ended = self.current
        self.total[ended] += spent
        self.running[ended] += ran
        self.waiting[ended] += waited
        self.seen = wall
        self.since += ran
        self.waited += waited
        self.current = phase

    def push(self, phase: int) -> None:
        """Begin `phase` within what is on."""
        self.stack.append(self.current)
        self.switch(phase)

    def aside(self, phase: int) -> None:
        """Begin something beside the work: within an evaluation it is evaluation."""
        self.push(EVALUATION if self.current == EVALUATION and phase != SAVE else phase)

    def pop(self) -> None:
        """End the phase that is on: back to the one around it, or to the gap after it."""
        self.leave(self.current)

    def leave(self, phase: int) -> None:
        """End what is on as if it were `phase`."""
        if not self.stack:  # the account began within this phase
            self.switch(GAP + phase)
            return
        outer = self.stack.pop()
        if self.stack:
            self.switch(outer)
        elif phase == EVALUATION or (outer == EVALUATION and phase in ASIDES):
            self.switch(EVALUATION)
        else:
            self.switch(GAP + phase)

    def unwind(self, depth: int) -> None:
        """Give up phases that an exception left on, down to `depth`."""
        del self.stack[depth:]

    @property
    def wall(self) -> int:
        """Nanoseconds counted so far; all phases and gaps together."""
        return sum(self.total)

    def phases(self) -> dict[str, list[int]]:
        """Nanoseconds per phase and gap that was ever on: running, waiting for a core, blocked."""
        return {
            NAMES[at]: [self.running[at], self.waiting[at], total - self.running[at] - self.waiting[at]]
            for at, total in enumerate(list(self.total))
            if total
        }
