"""Memory of the process, of its children, and of devices, and how fast it grows.

Shows:     resident and proportional memory, of loader workers too, and for each its slope: what grows by the hour ends the run.
Costs:     a few reads of /proc each second on a thread of its own; proportional memory (which makes the kernel walk through page
           tables) for at most a two-thousandth of that thread's time.
Not seen:  children on systems without /proc. Memory that a device's driver takes for itself.
"""

import contextlib
import os
import time
from collections import deque
from statistics import median
from typing import Any, ClassVar

import psutil

from netdyno.monitor.gauges._base import Gauge, Told

# A slope is told from so many seconds on, of ten minutes at most: shorter ones are the warm-up's, longer ones hide what began.
LEAST_S, MOST_S, SAMPLES = 30.0, 600.0, 200
# Of the thread's time, what reading proportional memory may take.
SHARE = 0.0005
MOST_CHILDREN = 64


class Slope:
    """Bytes per second, from medians: one large allocation that comes and goes does not count."""

    def __init__(self) -> None:
        self.points: deque[tuple[float, float]] = deque(maxlen=SAMPLES)

    def add(self, at: float, value: float) -> float | None:
        """The slope with this value; None while it is too early to say."""
        if not self.points or at - self.points[-1][0] >= MOST_S / SAMPLES:
            self.points.append((at, value))
        if self.points[-1][0] - self.points[0][0] < LEAST_S or len(self.points) < 9:
            return None
        points = list(self.points)
        third = len(points) // 3
        early, late = points[:third], points[-third:]
        apart = median(at for at, _ in late) - median(at for at, _ in early)
        return (median(value for _, value in late) - median(value for _, value in early)) / apart


class Memory(Gauge):
    """Reads once a second."""

    series: ClassVar[dict[str, Told]] = {
        "memory/rss": Told("bytes", "resident memory of the process"),
        "memory/rss_slope": Told("bytes/s", "how fast it grows"),
        "memory/pss": Told("bytes", "proportional memory of the process and its children: shared pages count once"),
        "memory/pss_slope": Told("bytes/s", "how fast it grows"),
        "memory/children": Told("bytes", "resident memory of all child processes"),
        "memory/children_slope": Told("bytes/s", "how fast the child that grows fastest grows"),
        "memory/children_count": Told("processes", "child processes"),
        "memory/device_allocated/*": Told("bytes", "memory that tensors take on a device"),
        "memory/device_peak/*": Told("bytes", "the most that they have taken"),
        "memory/device_reserved/*": Told("bytes", "memory that torch holds on a device"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.process = psutil.Process()
        self.slopes: dict[Any, Slope] = {}
        self.elapsed = 0.0
        self.spent = 0.0  # on proportional memory

    def tick(self, seconds: float) -> None:
        """Everything that can be read."""
        super().tick(seconds)
        self.elapsed += seconds
        self._told("memory/rss", self.process.memory_info().rss)
        children = _children(os.getpid())
        self._children(children)
        if self.spent <= SHARE * self.elapsed:
            began = time.thread_time()
            self._proportional([os.getpid(), *children])
            self.spent += time.thread_time() - began
        self._devices()

    def _told(self, name: str, value: float) -> None:
        self.tell(name, value)
        slope = self.slopes.setdefault(name, Slope()).add(self.elapsed, value)
        if slope is not None:
            self.tell(f"{name}_slope", slope)

    def _children(self, children: list[int]) -> None:
        resident = {child: size for child in children if (size := _resident(child)) is not None}
        for gone in [key for key in self.slopes if isinstance(key, int) and key not in resident]:
            del self.slopes[gone]
        slopes = [
            slope
            for child, size in resident.items()
            if (slope := self.slopes.setdefault(child, Slope()).add(self.elapsed, size)) is not None
        ]
        if resident or "memory/children" in self.shared.board:
            self.tell("memory/children", sum(resident.values()))
            self.tell("memory/children_count", len(resident))
        if slopes:
            self.tell("memory/children_slope", max(slopes))

    def _proportional(self, processes: list[int]) -> None:
        sizes = [_proportional(one) for one in processes]
        if sizes[0] is not None:
            self._told("memory/pss", sum(size for size in sizes if size is not None))

    def _devices(self) -> None:
        import torch

        if not torch.cuda.is_available() or not torch.cuda.is_initialized():
            return
        for device in range(torch.cuda.device_count()):
            if torch.cuda.max_memory_reserved(device):  # the allocator's own books: nothing waits for the device
                self.tell(f"memory/device_allocated/{device}", torch.cuda.memory_allocated(device))
                self.tell(f"memory/device_peak/{device}", torch.cuda.max_memory_allocated(device))
                self.tell(f"memory/device_reserved/{device}", torch.cuda.memory_reserved(device))


def _children(process: int) -> list[int]:
    """Children and their children, without a look at all processes of the machine."""
    found: list[int] = []
    waiting = [process]
    while waiting and len(found) < MOST_CHILDREN:
        fresh = _direct(waiting.pop())
        found += fresh
        waiting += fresh
    return found[:MOST_CHILDREN]


def _direct(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/task/{thread}/children") as file:
                found += [int(one) for one in file.read().split()]
    return found


def _resident(process: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _proportional(process: int) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return None


GAUGE = Memory
