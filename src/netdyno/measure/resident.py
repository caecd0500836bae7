"""How much memory a run holds as the system sees it, its loader workers included, and whether it keeps growing."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import NamedTuple

import psutil

# An allocator asks the system for memory in pieces of about this size, so less is no sign of anything.
PIECE = 64 << 10
LEAST_LEVELS = 12


class Level(NamedTuple):
    """Bytes held after some batches."""

    batches: int
    bytes: int


class Growth(NamedTuple):
    """Bytes more per batch. `certain` when the memory grew all along, not once."""

    per_batch: float
    certain: bool


def held() -> int:
    """Bytes of this process and of all its descendants; pages that several of them share are counted once.

    Pages of files are left out: the system can drop them at any time, and this process's part of a library's pages
    shrinks and grows with whoever else starts and ends a program that uses it.
    """
    own = psutil.Process()
    with contextlib.suppress(psutil.Error):
        return proportional(own.pid) + sum(proportional(child.pid) for child in own.children(recursive=True))
    return proportional(own.pid)


def proportional(process: int) -> int:
    """PSS of a process in bytes, without pages of files; its RSS where the system does not say; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, KeyError), open(f"/proc/{process}/smaps_rollup") as file:
        sizes = _sizes(file)
        return sizes["Pss"] - sizes.get("Pss_File", 0)
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(process).memory_info().rss)
    return 0


class PeakHeld:
    """The most that this process and its descendants held since it was made; call it for the bytes.

    The kernel's own high-water mark is reset and read for this process, so that no moment is missed;
    descendants count with what they hold when it is called.
    """

    def __init__(self) -> None:
        self._exact = False
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the high-water mark and nothing else
            self._exact = True
        self._most = held()

    def __call__(self) -> int:
        now = held()
        self._most = max(self._most, now + self._above_now())
        return self._most

    def _above_now(self) -> int:
        if not self._exact:
            return 0
        status = _status()
        return max(0, status.get("VmHWM", 0) - status.get("VmRSS", 0))


def growth(levels: Sequence[Level]) -> Growth:
    """How fast the memory grows over batches, after the first quarter, in which caches fill.

    Certain only when it grew in each quarter of the rest and hardly ever fell: one step up is no leak.
    """
    kept = levels[len(levels) // 4 :]
    if len(kept) < LEAST_LEVELS:
        return Growth(0.0, certain=False)
    pairs = list(combinations(kept, 2))
    slope = median((late.bytes - early.bytes) / (late.batches - early.batches) for early, late in pairs)
    rising = sum(late.bytes > early.bytes for early, late in pairs) / len(pairs)
    cuts = [kept[len(kept) * part // 4 - (part > 0)] for part in range(5)]
    steady = all(late.bytes - early.bytes >= PIECE for early, late in pairwise(cuts))
    return Growth(slope, certain=steady and rising >= 0.9)


def _status() -> dict[str, int]:
    with contextlib.suppress(OSError), open(f"/proc/{os.getpid()}/status") as file:
        return _sizes(file)
    return {}


def _sizes(lines: Iterable[str]) -> dict[str, int]:
    """Bytes by name, from lines such as `Pss:  12 kB`."""
    found = {}
    for line in lines:
        key, _, value = line.partition(":")
        if value.strip().endswith("kB"):
            found[key] = int(value.split()[0]) << 10
    return found
