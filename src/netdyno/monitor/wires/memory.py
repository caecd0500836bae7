"""Memory that runs out: what is left, of the machine or of the group that the process lives in, and for how long."""

import contextlib
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

GROUP = Path("/sys/fs/cgroup")
OLD_GROUP = GROUP / "memory"
MACHINE = Path("/proc/meminfo")
# Caches fill, and stop; what still grows when a tenth is left, and lasts for five minutes only, does not stop in time.
LEAST_SHARE, LEAST_MINUTES = 0.10, 5.0
EVERY_S, SAMPLES = 5.0, 24  # two minutes of samples
# Each third of the samples must be below the one before: growth, and not a wave.
THIRDS = 3


class Left(NamedTuple):
    """Bytes that can still be taken, and all there are."""

    bytes: int
    limit: int


class RunsOut(NamedTuple):
    """Minutes until nothing is left, if it goes on like this."""

    minutes: float
    left: Left


class Memory:
    """Samples of what is left."""

    def __init__(self) -> None:
        self.samples: deque[tuple[float, Left]] = deque(maxlen=SAMPLES)

    def judge(self, now: float, left: Left | None) -> RunsOut | None:
        """One more sample, at a time in seconds."""
        if left is None:
            return None
        self.samples.append((now, left))
        if len(self.samples) < SAMPLES or left.bytes > LEAST_SHARE * left.limit:
            return None
        slope = self._slope()
        if slope >= 0:
            return None
        minutes = left.bytes / -slope / 60.0
        return RunsOut(minutes, left) if minutes < LEAST_MINUTES else None

    def due(self, now: float) -> bool:
        """Whether it is time for another."""
        return not self.samples or now - self.samples[-1][0] >= EVERY_S

    def _slope(self) -> float:
        """Bytes per second between the middles of the first and the last third; 0 where it does not fall throughout."""
        length = SAMPLES // THIRDS
        parts = [list(self.samples)[at * length : (at + 1) * length] for at in range(THIRDS)]
        levels = [sum(left.bytes for _, left in part) / length for part in parts]
        times = [sum(at for at, _ in part) / length for part in parts]
        if not all(later < earlier for earlier, later in pairwise(levels)):
            return 0.0
        # Growth that slows down ends by itself: what counts is the last of it.
        return max((levels[-1] - levels[0]) / (times[-1] - times[0]), (levels[-1] - levels[1]) / (times[-1] - times[1]))


def left() -> Left | None:
    """Of the machine or the group, whichever has less; None where neither says."""
    known = [each for each in (_group(), _machine()) if each is not None]
    return min(known, key=lambda each: each.bytes) if known else None


def _group() -> Left | None:
    for folder, limit, used, stat in (
        (GROUP, "memory.max", "memory.current", "inactive_file"),
        (OLD_GROUP, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        # Files that were read are given back when memory is wanted.
        with contextlib.suppress(OSError, ValueError):
            most = int((folder / limit).read_text())
            cached = _line(folder / "memory.stat", stat)
            return Left(most - int((folder / used).read_text()) + cached, most)
    return None


def _machine() -> Left | None:
    with contextlib.suppress(OSError, ValueError):
        return Left(_line(MACHINE, "MemAvailable:") * 1024, _line(MACHINE, "MemTotal:") * 1024)
    return None


def _line(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return 0
