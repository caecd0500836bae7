"""Looking at a trial while it runs, and trying many changes, without fooling oneself: how error is spent."""

import math
from statistics import NormalDist
from typing import NamedTuple

from netdyno.stats.paired import UNBOUNDED, fewest_pairs

# Looks grow by this factor: each adds enough data to change the answer, and a trial that could have stopped
# at once runs at most 40 % longer than it had to.
GROWTH = 1.4

# The signed-rank test needs π/3 times the pairs of the t test on normal noise, and fewer on heavy tails.
RANK_COST = math.pi / 3


class Schedule(NamedTuple):
    """After how many pairs to look, and the error that each look may spend; `alphas` add up to the trial's error."""

    looks: tuple[int, ...]
    alphas: tuple[float, ...]


def schedule(min_pairs: int, max_pairs: int, error: float) -> Schedule:
    """Looks for one trial of at most `max_pairs` pairs.

    Error is spent in proportion to the pairs taken, α(t) = error · t: the power family of spending functions with
    exponent 1 (Lan and DeMets 1983; Kim and DeMets 1987). A look gets what was released since the one before, and
    the looks are joined by the union bound, not by their joint distribution. That costs some power and buys
    validity for any statistic: a rank interval of pairs, or a t interval of few spawns.

    The first look waits until a signed-rank interval at its error is bounded at all.

    >>> plan = schedule(8, 60, 0.01)
    >>> plan.looks
    (11, 16, 23, 33, 47, 60)
    >>> round(sum(plan.alphas), 6)
    0.01
    """
    if not 0 < error < 1:
        raise ValueError(f"an error of {error} cannot be spent")
    if not 1 <= min_pairs <= max_pairs:
        raise ValueError(f"{min_pairs} to {max_pairs} pairs is not a range")
    looks = [_first_look(min_pairs, max_pairs, error)]
    while looks[-1] < max_pairs:
        following = max(looks[-1] + 1, math.ceil(looks[-1] * GROWTH))
        # A last look just after the one before would have next to nothing to spend.
        looks.append(max_pairs if following * math.sqrt(GROWTH) > max_pairs else following)
    return Schedule(
        looks=tuple(looks),
        alphas=tuple(look_error(tuple(looks[: i + 1]), planned=max_pairs, error=error) for i in range(len(looks))),
    )


def look_error(looks: tuple[int, ...], *, planned: int, error: float) -> float:
    """The error that the last of `looks` may spend, in a trial planned for `planned` pairs.

    Looks need not follow a schedule: whenever one is taken, it gets what the pairs since the one before have
    released. Once all planned pairs were looked at there is nothing left, and the answer is 0. No looks at all
    means a single one at the end, which has the whole error.

    >>> look_error((10, 20), planned=40, error=0.04)
    0.01
    """
    if not looks:
        return error
    whole = planned or looks[-1]
    before = min(looks[-2], whole) if len(looks) > 1 else 0
    return error * (min(looks[-1], whole) - before) / whole


def campaign_error(error: float, trials: int) -> float:
    """Each trial's part of the campaign's one error budget: error / trials.

    Bonferroni, and nothing sharper, on purpose. Holm and Benjamini–Hochberg need all p values before the first
    decision, but the walk decides one trial after the other, and what is kept becomes the control of the next; their
    answers also come without intervals that hold together. The equal split is valid however trials depend on each
    other, and costs little: at 12 trials instead of 1, about 45 % more pairs for the same power.
    """
    return error / max(1, trials)


def pairs_needed(
    noise_sd_log: float,
    margin: float,
    error: float,
    *,
    power: float = 0.9,
    minimum: int = 8,
    maximum: int = 400,
) -> int:
    """Pairs until an effect `margin` away from the line between keep and drop is decided with chance `power`.

    `noise_sd_log` is the standard deviation of the log ratios of an A/A warm-up; `margin` is on the log scale too.
    `error` is the trial's part; the answer allows for what its earlier looks spend of it, and for one stall of the
    machine, which must not cost the verdict. Between `minimum` and `maximum`, however noisy.
    """
    if margin <= 0:
        return maximum
    alpha = _last_alpha(error)
    pairs = RANK_COST * ((_quantile(1 - alpha / 2) + _quantile(power)) * noise_sd_log / margin) ** 2
    return int(min(maximum, max(minimum, fewest_pairs(alpha, stalls=1), math.ceil(pairs))))


def smallest_effect(noise_sd_log: float, pairs: int, error: float, power: float = 0.9) -> float:
    """The smallest log ratio, away from the line, that `pairs` pairs decide with chance `power`.

    The inverse of `pairs_needed`. With fewer pairs than a bounded interval needs, nothing can be decided, and
    the answer is the log of a thousandfold.
    """
    alpha = _last_alpha(error)
    if pairs < fewest_pairs(alpha):
        return UNBOUNDED
    return (_quantile(1 - alpha / 2) + _quantile(power)) * noise_sd_log * math.sqrt(RANK_COST / pairs)


def _first_look(min_pairs: int, max_pairs: int, error: float) -> int:
    for pairs in range(min_pairs, max_pairs):
        if pairs >= fewest_pairs(error * pairs / max_pairs):
            return pairs
    return max_pairs


def _last_alpha(error: float) -> float:
    """What the last look of a schedule has: the error released while the pairs grew by the last factor."""
    return error * (1 - 1 / GROWTH)


def _quantile(chance: float) -> float:
    return NormalDist().inv_cdf(chance)
