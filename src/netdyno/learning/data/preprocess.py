"""Whether another way to prepare samples gives the same, and how much faster it is (ledger A-087)."""

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from netdyno.records.measured import Interval
from netdyno.stats.paired import hodges_lehmann, log_ratios

# A turn shorter than this is mostly the clock's own doing.
SHORTEST_S = 1e-3


class Faster(NamedTuple):
    """`worst` is the largest difference; `times` how many times as fast the second way is, with its interval. Kept only when both say so."""

    same: bool
    worst: float
    times: Interval | None
    says: str

    @property
    def kept(self) -> bool:
        """Whether it gives the same, and is faster beyond the noise."""
        return self.same and self.times is not None and self.times.low > 1


def faster(
    one: Callable[[Any], Any],
    other: Callable[[Any], Any],
    samples: Sequence[Any],
    *,
    pairs: int = 12,
    tolerance: float = 1e-5,
    level: float = 0.95,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Faster:
    """Compares two ways from a sample to an input: first what they give, and only when that is the same, how long they take."""
    worst = max((_apart(one(sample), other(sample)) for sample in samples), default=0.0)
    if not samples or not worst <= tolerance:
        return Faster(False, worst, None, f"they differ by up to {worst:.3g}: a faster way to something else is none")
    repeats = _repeats(one, other, samples, clock)
    turns = _turns((one, other), samples, pairs=pairs, repeats=repeats, order=random.Random(seed), clock=clock)
    gain = hodges_lehmann(log_ratios(*turns), level)
    times = Interval(middle=math.exp(gain.middle), low=math.exp(gain.low), high=math.exp(gain.high), level=level)
    told = "faster" if times.low > 1 else "slower" if times.high < 1 else "not distinguishable from noise"
    return Faster(True, worst, times, f"{times.middle:.2f} times as fast [{times.low:.2f}, {times.high:.2f}]: {told}")


def _apart(one: Any, other: Any) -> float:
    """The largest difference; infinite where shapes differ or only one has a hole."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    both = np.isfinite(a)
    # Two holes are the same when they are alike: NaN with NaN, an infinity with its own.
    if not np.array_equal(a[~both], b[~both], equal_nan=True):
        return math.inf
    return float(np.abs(a[both] - b[both]).max(initial=0.0))


def _turns(
    ways: tuple[Callable[[Any], Any], Callable[[Any], Any]],
    samples: Sequence[Any],
    *,
    pairs: int,
    repeats: int,
    order: random.Random,
    clock: Callable[[], float],
) -> tuple[list[float], list[float]]:
    """Seconds of each way, pair by pair. Whoever goes second meets warmer caches, so who goes first is drawn."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        sides = [0, 1]
        order.shuffle(sides)
        for side in sides:
            taken[side].append(_seconds(ways[side], samples, repeats, clock))
    return taken


def _seconds(way: Callable[[Any], Any], samples: Sequence[Any], repeats: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(repeats):
        for sample in samples:
            way(sample)
    return max(clock() - began, 1e-12)


def _repeats(one: Any, other: Any, samples: Sequence[Any], clock: Callable[[], float]) -> int:
    shortest = min(_seconds(way, samples, 1, clock) for way in (one, other))
    return min(1000, max(1, math.ceil(SHORTEST_S / shortest)))
