"""Control against treatment, pair by pair: log ratios, a rank-based estimate and its interval."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any

from netdyno.records.measured import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Records refuse infinity. A thousandfold either way, on the log scale, stands for "this end is not known":
# no change to a training step does that, so an interval that reaches it decides nothing.
UNBOUNDED = math.log(1000.0)

# Up to here the Wilcoxon distribution is counted out (5 ms once per n); beyond, the normal approximation is
# within a few per cent of the true tail at the levels of a campaign.
EXACT_UP_TO = 200

# n values have n²/2 Walsh averages. Beyond this many, neighbours are averaged first: no value is left out.
MOST_VALUES = 3000

# Enumerating sign patterns doubles with every value: 2^19 sums is a few milliseconds.
MOST_SIGNS = 20

# A turn of more than twice its side's median was a stall. At most one in twenty is forgiven: what comes more
# often belongs to the side, a loader that delivers in bursts for instance.
STALL = 2.0
STALLS = 0.05


def log_ratios(control: Sequence[float], treatment: Sequence[float]) -> list[float]:
    """log(control / treatment) for each pair: above 0 where the treatment took less time."""
    if len(control) != len(treatment):
        raise ValueError(f"{len(control)} control samples cannot be paired with {len(treatment)} treatment samples")
    if not all(math.isfinite(sample) and sample > 0 for sample in (*control, *treatment)):
        raise ValueError("a time in a pair is not a positive, finite number")
    return [math.log(a / b) for a, b in zip(control, treatment, strict=True)]


def hodges_lehmann(values: Sequence[float], level: float, *, unbounded: float = UNBOUNDED) -> Interval:
    """The pseudomedian of `values` with the interval that the Wilcoxon signed-rank test does not reject.

    The estimate is the median of all Walsh averages (x_i + x_j) / 2, the interval runs between two of their
    order statistics (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken 2014, section 3.3). It holds its
    level for any distribution symmetric around its centre, however heavy its tails: random order within pairs
    makes the log ratios of an A/A trial just that. Tied values only make it wider than it need be.

    With too few values for `level` no order statistic is far enough out; the interval then reaches from
    -`unbounded` to +`unbounded` (at least), which is the honest answer in finite numbers.

    >>> hodges_lehmann([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95).middle
    3.5
    """
    if not values:
        raise ValueError("no values to estimate from")
    folded = _folded(values)
    walsh = _walsh_averages(folded)
    steps = _steps_in(len(folded), 1 - level)
    return _between(walsh, steps, level=level, unbounded=unbounded)


def gain(control: Sequence[float], treatment: Sequence[float], level: float) -> Interval:
    """The share of the control's time that the treatment saves: 1 - exp(-θ), θ the Hodges–Lehmann log ratio.

    >>> round(gain([1.0] * 8, [0.75] * 8, 0.95).low, 6)
    0.25
    """
    return as_gain(hodges_lehmann(log_ratios(control, treatment), level))


def as_gain(log_ratio: Interval) -> Interval:
    """An interval of log(control / treatment) as the share of the control's time saved."""
    return Interval(
        middle=-math.expm1(-log_ratio.middle),
        low=-math.expm1(-log_ratio.low),
        high=-math.expm1(-log_ratio.high),
        level=log_ratio.level,
    )


def as_log_ratio(share: float) -> float:
    """The log ratio of control to treatment at which a `share` of the control's time is saved."""
    if share >= 1:
        raise ValueError(f"a share of {share} of the time cannot be saved")
    return -math.log1p(-share)


def total_gain(control: Sequence[float], treatment: Sequence[float]) -> float:
    """The share of all time saved, with the stalls of the machine set down to an ordinary slow turn.

    Ranks speak of the typical pair. When steps come in bursts (seven quick ones, then a wait for the loader), the
    typical step can be quicker while the sum is not: whoever decides looks at this number too. The machine stalls
    both sides alike, so only as many are forgiven as both sides show, and one more for chance.
    """
    pairs = min(len(control), len(treatment))
    spared = min(_stalls(control), _stalls(treatment), int(STALLS * pairs)) + 1
    return 1 - _sum_of_capped(treatment, spared) / _sum_of_capped(control, spared)


def _stalls(times: Sequence[float]) -> int:
    limit = STALL * median(times)
    return sum(time > limit for time in times)


def _sum_of_capped(times: Sequence[float], spared: int) -> float:
    """The sum, in which the `spared` longest count as much as the longest that is left."""
    rest = sorted(times)[: max(1, len(times) - spared)]
    return math.fsum(rest) + (len(times) - len(rest)) * rest[-1]


def sign_flip(values: Sequence[float]) -> float:
    """The exact two-sided p value of "these are symmetric around 0", for at most 20 values.

    Every pattern of signs is tried; the p value is the share of patterns whose sum lies as far from 0.

    >>> sign_flip([1.0, 2.0, 3.0, 4.0, 5.0])
    0.0625
    """
    import numpy as np

    if not 1 <= len(values) <= MOST_SIGNS:
        raise ValueError(f"{len(values)} values: the exact test takes 1 to {MOST_SIGNS}")
    # By symmetry the first sign may stay as it is.
    sums = np.array([values[0]])
    for value in values[1:]:
        sums = np.concatenate((sums + value, sums - value))
    # Sums that differ by rounding alone count as equal.
    slack = 1e-12 * sum(abs(value) for value in values)
    return float(np.mean(np.abs(sums) >= abs(math.fsum(values)) - slack))


@lru_cache(maxsize=1024)
def fewest_pairs(alpha: float, *, stalls: int = 0) -> int:
    """The smallest number of pairs from which a two-sided signed-rank interval at 1 - `alpha` is bounded.

    With `stalls`, from which that many wild ratios on one side do not stretch it: at the bare minimum the interval
    runs from the smallest value to the largest.

    >>> fewest_pairs(0.05), fewest_pairs(0.05, stalls=1)
    (6, 12)
    """
    pairs = max(1, math.ceil(1 - math.log2(alpha)))
    # That many Walsh averages contain a wild value.
    while stalls and _steps_in(pairs, alpha) <= stalls * pairs - stalls * (stalls - 1) // 2:
        pairs += 1
    return pairs


def _folded(values: Sequence[float]) -> "NDArray[np.float64]":
    """At most MOST_VALUES values; neighbours are averaged, which keeps the centre and the symmetry."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    if len(array) <= MOST_VALUES:
        return array
    return np.array([part.mean() for part in np.array_split(array, MOST_VALUES)])


def _walsh_averages(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
    import numpy as np

    count = len(values)
    averages = np.empty(count * (count + 1) // 2)
    begin = 0
    for i in range(count):
        end = begin + count - i
        np.add(values[i:], values[i], out=averages[begin:end])
        begin = end
    averages *= 0.5
    return averages


def _between(walsh: "NDArray[np.float64]", steps: int, *, level: float, unbounded: float) -> Interval:
    """The median of the averages, and the two that lie `steps` in from either end."""
    import numpy as np

    count = len(walsh)
    middles = [(count - 1) // 2, count // 2]
    ends = [steps - 1, count - steps] if steps else []
    part: Any = np.partition(walsh, sorted({*middles, *ends}))
    middle = float(part[middles[0]] + part[middles[1]]) / 2
    if not steps:
        return Interval(middle=middle, low=min(-unbounded, middle), high=max(unbounded, middle), level=level)
    return Interval(middle=middle, low=float(part[ends[0]]), high=float(part[ends[1]]), level=level)


def _steps_in(count: int, alpha: float) -> int:
    """How many of the outermost Walsh averages, on either side, lie outside the interval; 0 when it is unbounded."""
    if alpha <= 0:
        return 0
    if count <= EXACT_UP_TO:
        import numpy as np

        # The slack lets alpha = 2 / 2^n, attainable exactly, survive 1 - (1 - alpha).
        return int(np.searchsorted(_signed_rank_cdf(count), alpha / 2 * (1 + 1e-9), side="right"))
    from statistics import NormalDist

    mean = count * (count + 1) / 4
    sd = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    return max(0, math.floor(mean + NormalDist().inv_cdf(alpha / 2) * sd - 0.5) + 1)


@lru_cache(maxsize=128)
def _signed_rank_cdf(count: int) -> "NDArray[np.float64]":
    """P(W <= k) for the lower half of the values k of the Wilcoxon signed-rank statistic of `count` values."""
    import numpy as np

    whole = count * (count + 1) // 2
    chances = np.zeros(whole + 1)
    chances[0] = 1.0
    for rank in range(1, count + 1):
        # Rank `rank` is in the sum or it is not, with equal chance.
        shifted = np.zeros_like(chances)
        shifted[rank:] = chances[:-rank]
        chances = (chances + shifted) / 2
    lower: NDArray[np.float64] = np.cumsum(chances)[: whole // 2 + 1]
    return lower
