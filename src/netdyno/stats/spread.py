"""How much numbers scatter: standard deviations with their interval, and means over few spawns."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from netdyno.records.measured import Interval
from netdyno.stats.paired import UNBOUNDED, hodges_lehmann, log_ratios

# The median absolute deviation of a normal distribution is its standard deviation over this.
MAD_TO_SD = 1.4826


def deviation(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """The standard deviation of `values` with its chi-square interval (normal values); None for fewer than two."""
    return pooled_deviation((values,), level)


def pooled_deviation(groups: Sequence[Sequence[float]], level: float = 0.95) -> Interval | None:
    """The standard deviation within groups, each around its own mean, with its chi-square interval.

    None when no group has two values. The interval is wide for few values, as it should be:
    two values leave the true spread anywhere between 0.4 and 32 times the one seen.
    """
    freedom = sum(len(group) - 1 for group in groups if len(group) > 1)
    if not freedom:
        return None
    squares = math.fsum((value - fmean(group)) ** 2 for group in groups if len(group) > 1 for value in group)
    return _chi_square_interval(squares, freedom, level)


def t_interval(values: Sequence[float], level: float, *, unbounded: float = UNBOUNDED) -> Interval:
    """The mean of `values` with Student's interval, which never reaches beyond ± `unbounded`.

    A single value says nothing of its own spread: its interval reaches exactly that far.
    """
    if not values:
        raise ValueError("no values to estimate from")
    middle = fmean(values)
    low, high = min(-unbounded, middle), max(unbounded, middle)
    if len(values) > 1 and level < 1:
        half = t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
        low, high = max(low, middle - half), min(high, middle + half)
    return Interval(middle=middle, low=low, high=high, level=level)


def over_spawns(values_by_spawn: Sequence[Sequence[float]], level: float, *, unbounded: float = UNBOUNDED) -> Interval:
    """One estimate from several spawns: Hodges–Lehmann inside a spawn, Student's t across spawns.

    Two identical processes differ by a few per cent for as long as they live, so that more pairs of the same two
    processes prove nothing more: the spawn is the unit of replication. One spawn gives ± `unbounded`.
    """
    return t_interval([hodges_lehmann(values, level).middle for values in values_by_spawn], level, unbounded=unbounded)


def robust_noise(control: Sequence[float], treatment: Sequence[float]) -> float:
    """The standard deviation of the log ratios as their middle half shows it: a few stalls do not move it."""
    ratios = log_ratios(control, treatment)
    if len(ratios) < 2:
        raise ValueError(f"{len(ratios)} pairs show no noise")
    centre = median(ratios)
    noise = MAD_TO_SD * median(abs(ratio - centre) for ratio in ratios)
    # More than half of the ratios tied: the clock is coarser than the noise.
    return noise or stdev(ratios)


def t_quantile(chance: float, freedom: int) -> float:
    """The value that Student's t with `freedom` degrees stays below with this chance."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, chance))


def _chi_square_interval(squares: float, freedom: int, level: float) -> Interval:
    from scipy.special import chdtri

    # chdtri takes the chance to lie above.
    tail = (1 - level) / 2
    return Interval(
        middle=math.sqrt(squares / freedom),
        low=math.sqrt(squares / float(chdtri(freedom, tail))),
        high=math.sqrt(squares / float(chdtri(freedom, 1 - tail))),
        level=level,
    )
