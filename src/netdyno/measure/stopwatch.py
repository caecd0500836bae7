"""Reads the clocks: every phase of a step, told apart into running, waiting for a core, and blocked."""

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from netdyno.records.measured import Split

if TYPE_CHECKING:  # a service that is timed may run without it
    import torch


class Reading(NamedTuple):
    """Three clocks of the calling thread, in nanoseconds: wall, on a core, waiting for a core."""

    wall: int
    running: int
    waiting: int


Clock = Callable[[], Reading]


def between(before: Reading, after: Reading) -> Split:
    """Where the time between two readings of one clock went, in seconds."""
    wall = max(0, after.wall - before.wall)
    # The three clocks are not read at one instant: never let the parts exceed the whole.
    running = max(0, min(after.running - before.running, wall))
    waiting = max(0, min(after.waiting - before.waiting, wall - running))
    return Split(running=running / 1e9, waiting=waiting / 1e9, blocked=(wall - running - waiting) / 1e9)


# Between the first and the last clock of a reading lie a few µs. Much more means that the thread was put aside in
# between, and its three clocks belong to different moments: read again. Thrice, because bad luck may repeat.
TORN_NS = 200_000
TRIES = 3
# Off a core for less than this since the file was last read: not worth reading it again, which costs more than all
# else in the middle of a step, where nothing of it is in a cache. The time is told apart at the next reading.
UNSEEN_NS = 10_000
# A line of /proc/stat for each core has at most some hundred characters: room for two hundred cores.
BYTES_OF_STAT = 1 << 15
TICKS = os.sysconf("SC_CLK_TCK")


class _Open:
    """A small file of the kernel's, kept open: opening costs several times as much as reading. Let go, it closes."""

    def __init__(self, path: str) -> None:
        self.handle = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.handle)

    def read(self) -> list[bytes]:
        """Its words now. A page is enough: the longest, a list of children, holds six hundred of them."""
        return os.pread(self.handle, 4096, 0).split()


def thread_clock() -> Clock:
    """A clock for the calling thread, and for no other: make it in the thread whose work it is to time.

    Waiting comes from the kernel's run delay (`/proc/thread-self/schedstat`, second field); where there is
    no such file, waiting reads 0 and counts as blocked. Running comes from CLOCK_THREAD_CPUTIME_ID, because the
    file's own run time is only brought up to date at scheduler ticks. One reading costs about 1 µs in a loop, and
    several times that between the operators of a step, which leave nothing of it in the caches.
    """
    # Names of this function rather than attributes: a reading in the middle of a step pays for each look-up.
    wall_ns, running_ns, make = time.perf_counter_ns, time.thread_time_ns, tuple.__new__
    try:
        delay = _Open("/proc/thread-self/schedstat")
        waiting = int(delay.read()[1])
    except (OSError, IndexError, ValueError):
        return lambda: Reading(wall_ns(), running_ns(), 0)
    off_core = wall_ns() - running_ns()

    def read() -> Reading:
        nonlocal waiting, off_core
        wall, running = wall_ns(), running_ns()
        if wall - running - off_core > UNSEEN_NS:
            for _ in range(TRIES):
                waiting = int(delay.read()[1])
                after = wall_ns()
                if after - wall < TORN_NS:
                    break
                wall, running = after, running_ns()
            off_core = wall - running
        return make(Reading, (wall, running, waiting))

    return read


class Bystanders(NamedTuple):
    """What went on beside the calling thread, in seconds since some moment long ago.

    `tasks` has run time and run delay of each other thread of this process and of its children; `ended` is the run time
    of children that are no more; `busy` is what all programs together spent on the cores that this process may use, to
    the hundredth of a second,
    and None where too few tasks are there to crowd the cores: nobody asks then, and of all this it is the dearest to read.
    """

    tasks: dict[int, tuple[float, float]]
    ended: float
    busy: float | None

    @property
    def running(self) -> float:
        """Run time of all other threads and children, those that ended included."""
        return sum(run for run, _ in self.tasks.values()) + self.ended

    @property
    def waiting(self) -> float:
        """Run delay of all other threads and children that still live."""
        return sum(wait for _, wait in self.tasks.values())

    def since(self, before: "Bystanders") -> "Bystanders":
        """The same, counted from `before`; a thread that was born meanwhile counts from its birth."""
        gone = sum(run for task, (run, _) in before.tasks.items() if task not in self.tasks)
        tasks = {
            task: (run - before.tasks.get(task, (0.0, 0.0))[0], wait - before.tasks.get(task, (0.0, 0.0))[1])
            for task, (run, wait) in self.tasks.items()
        }
        # What a worker ran before `before` was counted then; what it ran in all is known once it has ended.
        busy = None if self.busy is None or before.busy is None else self.busy - before.busy
        return Bystanders(tasks, max(0.0, self.ended - before.ended - gone), busy)


class Neighbourhood:
    """Reads what the other threads of this process, its children and the whole machine have done so far.

    A turn reads it twice, so it keeps the kernel's files open and lists threads only when their number has changed:
    a fresh look costs several times as much, and leaves the step that follows with cold caches. `cores` is how many
    tasks beside the calling thread there must be before it is asked who else had the cores.
    """

    def __init__(self, cores: int = 1) -> None:
        self.cores = cores
        self._own: _Threads | None = None
        self._children: dict[int, _Threads] = {}
        self._machine: _Open | None = None
        self._process = 0

    def read(self) -> Bystanders:
        """Seconds since long ago; two readings are compared by `Bystanders.since`."""
        process = os.getpid()
        if process != self._process:  # made, or forked since: the open files are those of another process
            self._process, self._children = process, {}
            self._own, self._machine = _threads_of(process), _opened("/proc/stat")
        tasks = self._own.times(but=threading.get_native_id()) if self._own is not None else {}
        for child in self._offspring():
            tasks |= child.times()
        dead = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = _busy(self._machine) if len(tasks) >= self.cores else None
        return Bystanders(tasks, dead.ru_utime + dead.ru_stime, busy)

    def _offspring(self) -> Iterable["_Threads"]:
        born = self._own.children() if self._own is not None else ()
        if self._children or born:
            known = {child: self._children.get(child) or _threads_of(child) for child in born}
            self._children = {child: threads for child, threads in known.items() if threads is not None}
        return self._children.values()


class _Threads:
    """The threads of one process: what each has run and waited, and which children it has."""

    def __init__(self, process: int) -> None:
        self.process = process
        self._folder = _Open(f"/proc/{process}/task")
        self._links = -1
        self._stats: dict[int, _Open] = {}
        self._children: dict[int, _Open] = {}

    def times(self, but: int = 0) -> dict[int, tuple[float, float]]:
        """Run time and run delay of each thread `but` one, in seconds; none for a process that has ended."""
        if self._links < 0 or os.fstat(self._folder.handle).st_nlink != self._links:
            self._list()
        found = self._times(but)
        if len(found) < len(self._stats) - (but in self._stats):  # one has ended, and another may have taken its place
            self._list()
            found = self._times(but)
        return found

    def children(self) -> list[int]:
        """The direct children, whichever thread started them. Knows the threads that `times` has met last."""
        found: list[int] = []
        for file in self._children.values():
            with contextlib.suppress(OSError, ValueError):
                found += [int(child) for child in file.read()]
        return found

    def _times(self, but: int) -> dict[int, tuple[float, float]]:
        found = {}
        for task, file in self._stats.items():
            if task == but:
                continue
            with contextlib.suppress(OSError, IndexError, ValueError):
                run, wait, _ = file.read()
                found[task] = (int(run) / 1e9, int(wait) / 1e9)
        return found

    def _list(self) -> None:
        tasks = _tasks(self.process)
        self._stats = self._files(tasks, self._stats, "schedstat")
        self._children = self._files(tasks, self._children, "children") if self.process == os.getpid() else {}
        links = os.fstat(self._folder.handle).st_nlink
        # A folder's links are its subfolders and two more; where the system does not count them so, list every time.
        self._links = links if links == len(tasks) + 2 else -1

    def _files(self, tasks: list[int], known: dict[int, _Open], name: str) -> dict[int, _Open]:
        """One open file per thread; those that are open stay so, unless their thread has ended."""
        files = {task: known.get(task) or _opened(f"/proc/{self.process}/task/{task}/{name}") for task in tasks}
        return {task: file for task, file in files.items() if file is not None}


def _threads_of(process: int) -> _Threads | None:
    try:
        return _Threads(process)
    except OSError:
        return None


def _opened(path: str) -> _Open | None:
    try:
        return _Open(path)
    except OSError:
        return None


def _busy(file: _Open | None) -> float | None:
    """What all programs spent on the cores that this process may use: others stand in nobody's way here."""
    if file is None:
        return None
    with contextlib.suppress(OSError, IndexError, ValueError):
        lines = os.pread(file.handle, BYTES_OF_STAT, 0).splitlines()
        mine = os.sched_getaffinity(0)
        # The first line holds the sum over all cores, which a process that may use all of them need not make anew.
        whole = len(mine) == os.cpu_count()
        rows = lines[:1] if whole else [line for line in lines[1:] if line[:3] == b"cpu" and _number(line) in mine]
        return sum(map(_spent, rows)) / TICKS if rows else None
    return None


def _number(line: bytes) -> int:
    return int(line.split(maxsplit=1)[0][3:])


def _spent(line: bytes) -> int:
    user, nice, system, _, _, interrupts, soft = (int(field) for field in line.split()[1:8])
    return user + nice + system + interrupts + soft


def children(process: int) -> list[int]:
    """The ids of the direct children of a process, whichever of its threads started them."""
    found: list[int] = []
    for task in _tasks(process):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/task/{task}/children") as file:
            found += [int(child) for child in file.read().split()]
    return found


def _tasks(process: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


class Stopwatch:
    """Adds up exclusive phases. At any moment exactly one phase is on; switching costs one reading.

    >>> ticks = iter(Reading(t, t, 0) for t in (0, 1_000_000_000, 3_000_000_000))
    >>> watch = Stopwatch(lambda: next(ticks))
    >>> watch.start("data"); watch.phase("forward"); watch.stop()
    >>> watch.phases()["forward"].running
    2.0
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or thread_clock()
        self._totals: dict[str, list[int]] = {}
        self._current: str | None = None
        # Readings are noted as they come and added up when somebody asks: that is no time for arithmetic.
        self._readings: list[tuple[str | None, Reading]] = []

    def start(self, name: str) -> None:
        """Begin with phase `name`; what went before is not counted."""
        self._current = name
        self._readings.append((None, self.clock()))

    def phase(self, name: str) -> None:
        """End the phase that is on and begin `name`."""
        self._readings.append((self._current, self.clock()))
        self._current = name

    def stop(self) -> None:
        """End the phase that is on."""
        self._readings.append((self._current, self.clock()))
        self._current = None

    def nested(self, name: str) -> AbstractContextManager[None]:
        """Count the inside as `name` and take it away from the phase around it.

        Does nothing while the stopwatch is stopped.
        """
        return _Nested(self, name)

    @property
    def current(self) -> str | None:
        """The phase that is on, if any."""
        return self._current

    def phases(self) -> dict[str, Split]:
        """Seconds per phase since the last `clear`, up to the last reading."""
        self._add_up()
        return {
            name: Split(running=running / 1e9, waiting=waiting / 1e9, blocked=blocked / 1e9)
            for name, (running, waiting, blocked) in self._totals.items()
        }

    def total(self) -> Split:
        """All phases together, in seconds."""
        self._add_up()
        running, waiting, blocked = (sum(part) / 1e9 for part in zip([0, 0, 0], *self._totals.values(), strict=True))
        return Split(running=running, waiting=waiting, blocked=blocked)

    def clear(self) -> None:
        """Forget what was counted; a phase that an exception left on is off afterwards."""
        self._totals.clear()
        self._readings.clear()
        self._current = None

    def _add_up(self) -> None:
        since = Reading(0, 0, 0)
        for ended, now in self._readings:
            if ended is None:
                since = now
                continue
            wall = now.wall - since.wall
            # The three clocks are not read at one instant, so a part may seem larger than the whole. What is too
            # much here belongs to the phase that follows, whose wall time holds it: carry it over, don't drop it.
            running = max(0, min(now.running - since.running, wall))
            waiting = max(0, min(now.waiting - since.waiting, wall - running))
            since = Reading(now.wall, since.running + running, since.waiting + waiting)
            totals = self._totals.setdefault(ended, [0, 0, 0])
            totals[0] += running
            totals[1] += waiting
            totals[2] += wall - running - waiting
        self._readings = [(None, since)] if self._readings else []


class _Nested:
    """A phase within a phase. A class, because a generator costs several times as much in a step."""

    __slots__ = ("name", "outer", "watch")

    def __init__(self, watch: Stopwatch, name: str) -> None:
        self.watch = watch
        self.name = name
        self.outer: str | None = None

    def __enter__(self) -> None:
        self.outer = self.watch.current
        if self.outer is not None:
            self.watch.phase(self.name)

    def __exit__(self, *_: object) -> None:
        if self.outer is not None:
            self.watch.phase(self.outer)


class SilentStopwatch(Stopwatch):
    """Takes no time, because it reads no clock: the other side when the stopwatch itself is measured."""

    def start(self, name: str) -> None:
        """Do nothing."""

    def phase(self, name: str) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class DeviceStopwatch(Stopwatch):
    """The same for a CUDA device: phases are told apart by device events, read without stalling a step.

    Host phases keep their split; `device_phases` holds the device's seconds per phase once `settle` was called.
    """

    def __init__(self, device: "torch.device", clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.device = device
        self._marks: list[tuple[str, torch.cuda.Event]] = []
        self._device: dict[str, float] = {}

    def _mark(self, name: str) -> None:
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        self._marks.append((name, event))

    def start(self, name: str) -> None:
        """Wait for the device, then begin: work that was queued before belongs to no phase."""
        import torch

        torch.cuda.synchronize(self.device)
        super().start(name)
        self._mark(name)

    def phase(self, name: str) -> None:
        super().phase(name)
        self._mark(name)

    def stop(self) -> None:
        """End the phase that is on and wait for the device: a turn's time includes all its device work.

        The wait is a phase of its own, `rest`: the host did not spend it on what happened to come last.
        """
        import torch

        self._mark("")
        super().phase("rest")
        torch.cuda.synchronize(self.device)
        super().stop()
        self.settle()

    def settle(self) -> None:
        """Turn events into seconds; the device must be idle."""
        for (name, event), (_, following) in zip(self._marks, self._marks[1:], strict=False):
            if name:
                self._device[name] = self._device.get(name, 0.0) + event.elapsed_time(following) / 1e3
        self._marks.clear()

    def device_phases(self) -> dict[str, float]:
        """Device seconds per phase."""
        return dict(self._device)

    def clear(self) -> None:
        super().clear()
        self._marks.clear()
        self._device.clear()


def stopwatch_for(device: "torch.device") -> Stopwatch:
    """The stopwatch that fits a device."""
    return DeviceStopwatch(device) if device.type == "cuda" else Stopwatch()
