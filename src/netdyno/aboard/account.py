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

# Off a core for less than this since it was last noted: noting it takes a system call, up to 15 µs with cold caches.
# What a neighbour or a wait takes is more, and what is not noted now is noted later.
UNSEEN_NS = 30_000
# A phase as short as that cannot have anything to note by itself: it is taken to have run, and if a part of it did not,
# a longer phase makes up for it. So is one that takes no longer, by this much, than it took when it was last seen to
# run throughout: what is put aside takes longer. Most boundaries are spared a look at the clock that is a system call.
SHORT_NS = UNSEEN_NS
LONGER = 1.25


class Clocks(NamedTuple):
    """Three clocks of one thread in nanoseconds: wall, on a core, waiting for a core."""

    wall: Callable[[], int]
    running: Callable[[], int]
    waiting: Callable[[], int]


def thread_clocks() -> Clocks:
    """Clocks for the calling thread and no other. Without the kernel's run delay, waiting reads 0."""
    pread = os.pread
    try:
        handle = _Open("/proc/thread-self/schedstat")
        int(pread(handle.number, 64, 0).split()[1])
    except (OSError, IndexError, ValueError):
        return Clocks(time.perf_counter_ns, time.thread_time_ns, lambda: 0)
    return Clocks(time.perf_counter_ns, time.thread_time_ns, lambda: int(pread(handle.number, 64, 0).split()[1]))


class _Open:
    """An open file that closes when nobody needs it any more."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.number)


class Account:
    """Adds up exclusive phases. While it is on, exactly one phase or gap is on.

    >>> ticks = iter([0, 5, 7, 10])
    >>> account = Account(Clocks(lambda: next(ticks), lambda: 0, lambda: 0))
    >>> account.start(FORWARD); account.push(FORWARD); account.pop(); account.switch(DATA)
    >>> account.phases()["forward"], account.phases()["after forward"]
    ([2, 0, 0], [8, 0, 0])
    """

    __slots__ = (
        "calm",
        "clocks",
        "current",
        "exact",
        "noted",
        "off",
        "on",
        "seen",
        "stack",
        "stretches",
        "total",
        "waited",
        "waiting",
        "wall_ns",
    )

    def __init__(self, clocks: Clocks | None = None) -> None:
        self.clocks = clocks
        self.stretches: Any = None  # where `between` keeps what it saw, while somebody looks
        self.wall_ns: Callable[[], int] = time.perf_counter_ns
        self.current = GAP
        self.on = False
        self.exact = False  # in a race: what is off a core is noted with the phase it was in, whatever that costs
        self.stack: list[int] = []
        # When the phase began that is on; how long the thread was off a core, and waited for one, as far as noted.
        self.seen = self.noted = self.waited = 0
        self._zero()

    def _zero(self) -> None:
        self.total = [0] * len(NAMES)
        self.off = [0] * len(NAMES)
        self.waiting = [0] * len(NAMES)
        self.presume_nothing()

    def presume_nothing(self) -> None:
        """Look at each phase again: what they took before says nothing of what they take now."""
        self.calm: list[float] = [SHORT_NS] * len(NAMES)  # what takes less than this is taken to have run

    def start(self, after: int = NETDYNO) -> None:
        """Begin to count, on the thread whose work it is, in the gap after phase `after`."""
        if self.clocks is None:
            self.clocks = thread_clocks()
        self.wall_ns = self.clocks.wall
        ran = self.clocks.running()
        self.seen = self.wall_ns()
        self.noted = self.seen - ran
        self.waited = self.clocks.waiting()
        self.current = GAP + after
        self.stack.clear()
        self.on = True

    def forget_thread(self) -> None:
        """Count no more until `start`, which may come from another thread or process."""
        self.on = False
        self.clocks = None

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
        if self.on:  # else who asks what is on gets an answer all the same
            wall = self.wall_ns()
            if wall - self.seen >= self.calm[self.current]:
                wall = self._note()
            self.total[self.current] += wall - self.seen
            self.seen = wall
        self.current = phase

    def _note(self) -> int:
        """Take down how much of what is on the thread was not on a core, and give its end.

        A thread whose turn is over is put aside at its next system call, and that is often ours: so the wall clock is
        read last, and the wait belongs to what was on. The clocks are not read at one instant, so a part may seem larger
        than the whole. What is too much here belongs to a phase that follows: carried over, not dropped.
        """
        assert self.clocks is not None
        ran = self.clocks.running()
        wall = self.wall_ns()
        off = wall - ran - self.noted
        if off < UNSEEN_NS:
            self.calm[self.current] = SHORT_NS if self.exact else max(SHORT_NS, LONGER * (wall - self.seen))
        else:
            self.calm[self.current] = SHORT_NS
            off = min(off, wall - self.seen)
            waited = max(0, min(self.clocks.waiting() - self.waited, off))
            self.noted += off
            self.waited += waited
            self.off[self.current] += off
            self.waiting[self.current] += waited
        return wall

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
        if not self.stack:  # the account began within this phase, or was stopped within it
            self.switch(phase if phase >= GAP else GAP + phase)
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
            NAMES[at]: [total - self.off[at], self.waiting[at], self.off[at] - self.waiting[at]]
            for at, total in enumerate(list(self.total))
            if total
        }
