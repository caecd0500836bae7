"""Percentiles of latency, with an interval that asks nothing of their distribution."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from netdyno.records.deployment import Percentile
from netdyno.records.measured import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Samples that must lie beyond a percentile before it is called precise: ten for 1,000 samples and P99 (ledger A-030).
BEYOND = 10

# Neighbouring calls share their stalls. Over this many stretches the scatter of slow calls shows how much they do: enough for a
# variance, and few enough that a stall of the machine fits into one.
STRETCHES = 20


class Ranks(NamedTuple):
    """Which of the sorted samples, counted from 0, are the ends of an interval."""

    low: int
    high: int


def percentile(samples: Sequence[float], share: float, level: float = 0.95) -> Percentile:
    """The smallest sample that at least `share` of them do not exceed, with an interval between two order statistics.

    The interval covers the true percentile with chance `level` whatever the distribution (Hahn and Meeker 1991, section 5.2; Conover 1999,
    section 3.2): the number of samples below it is binomial. Samples are taken in the order they were made: where slow ones come in
    runs, they count as fewer. The interval is None where no sample lies far enough out.

    >>> found = percentile([float(8 * ms % 1001) for ms in range(1, 1001)], 0.99)
    >>> found.seconds, found.interval.low, found.interval.high, found.precise
    (990.0, 983.0, 997.0, True)
    """
    if not samples:
        raise ValueError("no samples to take a percentile of")
    if not 0 < share < 1:
        raise ValueError(f"{share} is no share between 0 and 1")
    import numpy as np

    array = np.asarray(samples, dtype=float)
    ordered = np.sort(array)
    count = len(ordered)
    value = float(ordered[min(count, math.ceil(count * share - 1e-9)) - 1])
    ranks = _ranks(count, share, level, worth=count / _clumping(array, value, share))
    interval = None
    if ranks is not None:
        interval = Interval(middle=value, low=float(ordered[ranks.low]), high=float(ordered[ranks.high]), level=level)
    return Percentile(share=share, seconds=value, interval=interval, samples=count, precise=count >= asked(share))


def asked(share: float) -> int:
    """How many samples a percentile asks for before it is called precise.

    >>> asked(0.99), asked(0.999), asked(0.5)
    (1000, 10000, 20)
    """
    return math.ceil(BEYOND / min(share, 1 - share) - 1e-6)


def fewest(share: float, level: float = 0.95) -> int:
    """From how many independent samples on the interval of a percentile has both ends.

    >>> fewest(0.99), fewest(0.5)
    (368, 6)
    """
    far = max(share, 1 - share)
    return math.ceil(math.log((1 - level) / 2) / math.log(far) - 1e-9)


def share_beyond(samples: Sequence[float], limit: float, level: float = 0.95) -> Interval:
    """The share of samples above a limit, with the interval of Clopper and Pearson; samples that exceed it together count as fewer.

    For independent samples this asks the same as whether the limit lies inside a percentile's interval. For others it asks better:
    what matters is how those clump that break the limit, not those near the percentile.

    >>> share_beyond([1.0] * 400, 2.0).high < 0.01
    True
    """
    if not samples:
        raise ValueError("no samples to compare with a limit")
    import numpy as np
    from scipy.special import betaincinv

    array = np.asarray(samples, dtype=float)
    share = float(np.mean(array > limit))
    # Nothing beyond, or nothing else: there is nothing that could clump.
    clumping = _clumping(array, limit, 1 - share) if 0 < share < 1 else 1.0
    looks = len(array) / clumping
    hits, tail = share * looks, (1 - level) / 2
    low = float(betaincinv(hits, looks - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, looks - hits, 1 - tail)) if share < 1 else 1.0
    return Interval(middle=share, low=low, high=high, level=level)


def _ranks(count: int, share: float, level: float, *, worth: float) -> Ranks | None:
    """The ends for `count` samples that are `worth` as many independent ones; None when one end would lie beyond all of them."""
    from scipy.special import bdtr

    tail = (1 - level) / 2 * (1 + 1e-9)
    independent = max(1, int(worth))
    if independent < fewest(share, level):
        return None
    sd = math.sqrt(independent * share * (1 - share))
    reach = int(10 * sd) + 10
    middle = int(independent * share)
    # The interval from the l-th to the u-th smallest misses when fewer than l samples lie below the percentile, or u and more.
    low = next(
        (rank for rank in range(middle, max(0, middle - reach), -1) if bdtr(rank - 1, independent, share) <= tail), None
    )
    high = next(
        (rank for rank in range(middle + 1, min(independent, middle + reach) + 1)
         if 1 - bdtr(rank - 1, independent, share) <= tail),
        None,
    )  # fmt: skip
    if low is None or high is None:
        return None
    scale = count / independent
    return Ranks(low=math.floor(low * scale) - 1, high=min(count, math.ceil(high * scale)) - 1)


def _clumping(samples: "NDArray[np.float64]", value: float, share: float) -> float:
    """How many times more the count of slow samples varies from stretch to stretch than for independent samples; at least 1.

    One shot of the batch-means estimate that Heidelberger and Lewis (1984) use for percentiles of dependent sequences.
    """
    import numpy as np

    if len(samples) < 2 * STRETCHES:
        return 1.0
    length = len(samples) // STRETCHES
    slow = (samples[: length * STRETCHES] > value).reshape(STRETCHES, length).sum(1)
    independent = length * share * (1 - share)
    return max(1.0, float(np.var(slow, ddof=1)) / independent)
