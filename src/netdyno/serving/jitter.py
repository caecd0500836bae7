"""How unsteady latency is: P99 over P50, with an interval, and two services beside each other (ledger A-247)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from netdyno.records.measured import Interval
from netdyno.stats.percentiles import percentile


class Steadied(NamedTuple):
    """P99/P50 before and after, and the ratio of the two: below 1 where it became steadier."""

    before: Interval
    after: Interval
    ratio: Interval


def jitter(samples: Sequence[float], *, level: float = 0.95) -> Interval:
    """P99 over P50 of latencies in the order they were taken. Raises ValueError for too few."""
    top, middle = percentile(samples, 0.99, level).interval, percentile(samples, 0.5, level).interval
    if top is None or middle is None:
        raise ValueError(f"{len(samples)} samples are too few for the range of a P99")
    return over(top, middle)


def steadied(before: Sequence[float], after: Sequence[float], *, level: float = 0.95) -> Steadied:
    """Whether latency became steadier."""
    first, second = jitter(before, level=level), jitter(after, level=level)
    return Steadied(before=first, after=second, ratio=over(second, first))


def over(above: Interval, below: Interval) -> Interval:
    """The ratio of two positive quantities that are known with a range each, on the log scale.

    Each end takes the variances of the ends that make it (Zou and Donner 2008).

    >>> found = over(Interval(middle=20.0, low=18.0, high=25.0, level=0.95), Interval(middle=10.0, low=9.0, high=11.0, level=0.95))
    >>> round(found.low, 2), found.middle, round(found.high, 2)
    (1.74, 2.0, 2.56)
    """
    middle = above.middle / below.middle
    down = math.hypot(math.log(above.middle / above.low), math.log(below.high / below.middle))
    up = math.hypot(math.log(above.high / above.middle), math.log(below.middle / below.low))
    return Interval(middle=middle, low=middle * math.exp(-down), high=middle * math.exp(up), level=above.level)
