"""Two ways of answering the same rows: how many were lost and won, whether that is chance, and how large the loss may be."""

import math
from functools import lru_cache

from netdyno.records.measured import Interval

# Beyond so many samples nobody collects them to settle half a per cent.
MOST_ROWS = 100_000_000


def mcnemar(lost: int, won: int) -> float:
    """The exact two-sided p value of "as many rows are lost as are won" (McNemar 1947): a sign test on the rows that changed.

    >>> mcnemar(0, 0), mcnemar(1, 9)
    (1.0, 0.021484375)
    """
    if lost + won == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(lost, lost + won).pvalue)


def paired_difference(lost: float, won: float, rows: float, *, level: float = 0.95) -> Interval:
    """The share of rows lost less won, with Tango's score interval (Statistics in Medicine 17, 1998, 891-908).

    The interval holds every difference that the score test for paired proportions does not reject, with the other cell at its most
    likely value under it. Unlike the simple one it is not a point where nothing changed: no row lost of n leaves z²/(n + z²).
    Counts need not be whole, so that the same rates can be asked of more rows.

    >>> found = paired_difference(0, 0, 597)
    >>> round(found.high, 5)
    0.00639
    """
    if rows <= 0:
        raise ValueError("nothing was looked at")
    if lost < 0 or won < 0 or lost + won > rows:
        raise ValueError(f"{lost} rows lost and {won} won of {rows}")
    z = _quantile(level)
    middle = (lost - won) / rows
    high = _edge(lost, won, rows, z=z, low=middle)
    low = -_edge(won, lost, rows, z=z, low=-middle)
    return Interval(middle=middle, low=min(low, middle), high=max(high, middle), level=level)


def rows_to_tell(lost: float, won: float, rows: float, limit: float, *, level: float = 0.95) -> int | None:
    """How many rows it takes until the interval lies on one side of `limit`, if rows go on being lost and won at the rate seen.

    None where the drop seen is the limit itself, or so near that no one could collect them.

    >>> rows_to_tell(0, 0, 597, 0.005)
    765
    """

    def tells(count: float) -> bool:
        found = paired_difference(lost / rows * count, won / rows * count, count, level=level)
        return found.high <= limit or found.low > limit

    if tells(rows):
        return math.ceil(rows)
    high = 2.0 * rows
    while not tells(high):
        high *= 2
        if high > MOST_ROWS:
            return None
    low = high / 2
    while high - low > max(1.0, 0.001 * high):
        middle = (low + high) / 2
        low, high = (low, middle) if tells(middle) else (middle, high)
    return math.ceil(high)


def _edge(lost: float, won: float, rows: float, *, z: float, low: float, high: float = 1.0) -> float:
    """The largest difference that is not rejected: its score falls from 0 at the estimate `low`, and is below -z beyond the edge."""
    if _score(lost, won, rows, high) > -z:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _score(lost, won, rows, middle) > -z else (low, middle)
    return high


def _score(lost: float, won: float, rows: float, difference: float) -> float:
    """Tango's statistic for a true `difference` of lost less won."""
    a = 2 * rows
    b = -lost - won + (2 * rows - lost + won) * difference
    c = -won * difference * (1 - difference)
    other = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = rows * (2 * other + difference * (1 - difference))
    distance = lost - won - rows * difference
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


@lru_cache(maxsize=64)
def _quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + level) / 2)
