"""Percentiles and their intervals: held to what independent and to what clumped samples really do."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from netdyno.stats.percentiles import asked, fewest, percentile, share_beyond


def coverage(draw, share, truth, *, times=300):
    """The share of intervals that hold the truth, among those that are given at all."""
    found = [percentile(draw(), share).interval for _ in range(times)]
    given = [one for one in found if one is not None]
    return sum(one.holds(truth) for one in given) / len(given)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_the_interval_covers_the_true_percentile_as_often_as_it_says(share):
    chance = np.random.default_rng(1)
    assert coverage(lambda: chance.exponential(size=1000).tolist(), share, -math.log(1 - share)) > 0.92


def test_samples_that_stall_together_count_as_fewer():
    chance = np.random.default_rng(2)
    # One call in ten is slow: alone, or in runs of forty.
    alone = (chance.random(4000) < 0.1) + chance.random(4000) / 10
    together = np.repeat(chance.random(100) < 0.1, 40) + chance.random(4000) / 10
    narrow, wide = percentile(alone.tolist(), 0.8).interval, percentile(together.tolist(), 0.8).interval
    assert narrow is not None
    assert wide is not None
    assert wide.width > 3 * narrow.width


def test_the_ranks_are_those_of_the_binomial():
    found = percentile([float(8 * ms % 1001) for ms in range(1, 1001)], 0.99).interval
    assert found is not None
    miss_below = binom.cdf(found.low - 1, 1000, 0.99)
    miss_above = binom.sf(found.high - 1, 1000, 0.99)
    assert miss_below <= 0.025 < binom.cdf(found.low, 1000, 0.99)
    assert miss_above <= 0.025 < binom.sf(found.high - 2, 1000, 0.99)


def test_p99_is_precise_from_a_thousand_samples_on():
    assert (asked(0.99), asked(0.5), asked(0.999)) == (1000, 20, 10_000)
    samples = [float(8 * ms % 1001) for ms in range(1, 1001)]
    assert percentile(samples, 0.99).precise
    assert not percentile(samples[:999], 0.99).precise


def test_too_few_samples_give_no_interval():
    samples = [float(617 * ms % 1009) for ms in range(1, 1009)]
    assert percentile(samples[:100], 0.99).interval is None
    assert percentile(samples[:100], 0.5).interval is not None
    assert 1 - 0.99 ** fewest(0.99) >= 0.975 > 1 - 0.99 ** (fewest(0.99) - 1)


def test_the_value_is_the_nearest_rank():
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5).seconds == 2.0
    assert percentile([1.0], 0.99).seconds == 1.0


def test_nothing_and_no_share_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="no share"):
        percentile([1.0], 1.0)


def test_the_share_beyond_a_limit_asks_what_the_interval_of_the_percentile_asks():
    chance = np.random.default_rng(3)
    for _ in range(50):
        # Evenly spread in time, so that neither counts as clumped.
        samples = chance.exponential(size=1000).tolist()
        interval = percentile(samples, 0.9).interval
        assert interval is not None
        assert share_beyond(samples, interval.low * 0.97).low > 0.08
        assert share_beyond(samples, interval.high * 1.03).high < 0.12


def test_slow_samples_in_one_stall_say_less_of_the_limit_than_slow_ones_apart():
    apart, stalled = [0.0] * 4000, [0.0] * 4000
    apart[50::100] = [1.0] * 40
    stalled[1000:1040] = [1.0] * 40
    assert share_beyond(apart, 0.5).middle == share_beyond(stalled, 0.5).middle == 0.01
    assert share_beyond(stalled, 0.5).width > 3 * share_beyond(apart, 0.5).width


def test_nothing_beyond_the_limit_is_sure_from_as_many_samples_as_a_percentile_needs():
    assert share_beyond([1.0] * fewest(0.99), 2.0).high <= 0.01
    assert share_beyond([1.0] * (fewest(0.99) - 1), 2.0).high > 0.01
    assert share_beyond([3.0] * 50, 2.0).high == 1.0


def test_no_samples_have_no_share():
    with pytest.raises(ValueError, match="no samples"):
        share_beyond([], 1.0)
