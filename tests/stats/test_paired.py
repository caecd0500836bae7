import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from netdyno.stats import paired
from netdyno.stats.paired import (
    UNBOUNDED,
    as_gain,
    as_log_ratio,
    fewest_pairs,
    gain,
    hodges_lehmann,
    log_ratios,
    sign_flip,
    total_gain,
)


def brute_force(values, level):
    """The set of centres that scipy's exact Wilcoxon test does not reject, on the grid of Walsh averages."""
    walsh = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    inside = []
    for centre in walsh:
        # Just off the average, so that no difference is zero and the test stays exact.
        for nudged in (centre - 1e-9, centre + 1e-9):
            shifted = np.array(values) - nudged
            if stats.wilcoxon(shifted, method="exact").pvalue > 1 - level:
                inside.append(nudged)
    return min(inside), max(inside)


@pytest.mark.parametrize("count", [8, 13, 21])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_is_what_the_exact_wilcoxon_test_does_not_reject(count, level):
    values = list(np.random.default_rng(count).normal(size=count))
    low, high = brute_force(values, level)
    interval = hodges_lehmann(values, level)
    assert interval.low == pytest.approx(low, abs=1e-8)
    assert interval.high == pytest.approx(high, abs=1e-8)


def test_the_estimate_is_the_median_of_all_walsh_averages():
    values = [3.0, 1.0, 4.0, 1.5, 9.0]
    walsh = [(a + b) / 2 for i, a in enumerate(values) for b in values[i:]]
    assert hodges_lehmann(values, 0.9).middle == np.median(walsh)


def test_the_normal_approximation_joins_the_exact_count_without_a_jump(monkeypatch):
    values = list(np.random.default_rng(1).normal(size=180))
    exact = hodges_lehmann(values, 0.999)
    monkeypatch.setattr(paired, "EXACT_UP_TO", 50)
    normal = hodges_lehmann(values, 0.999)
    assert normal.low == pytest.approx(exact.low, abs=0.02 * exact.width)
    assert normal.high == pytest.approx(exact.high, abs=0.02 * exact.width)


def test_too_few_pairs_for_the_level_give_a_thousandfold_either_way_and_not_infinity():
    interval = hodges_lehmann([0.1] * 5, 0.95)
    assert (interval.low, interval.high) == (-UNBOUNDED, UNBOUNDED)
    assert as_gain(interval).high == pytest.approx(0.999)
    assert as_gain(interval).low == pytest.approx(-999)
    assert hodges_lehmann([0.1] * 6, 0.95).width == pytest.approx(0.0)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 2 / 2**8, 1e-4])
def test_fewest_pairs_is_where_the_interval_becomes_bounded(alpha):
    fewest = fewest_pairs(alpha)
    assert hodges_lehmann([0.1] * fewest, 1 - alpha).width == pytest.approx(0.0)
    assert hodges_lehmann([0.1] * (fewest - 1), 1 - alpha).high == UNBOUNDED


@pytest.mark.parametrize("stalls", [1, 2, 3])
def test_fewest_pairs_with_stalls_is_where_wild_values_stop_stretching_the_interval(stalls):
    fewest = fewest_pairs(0.001, stalls=stalls)
    wild = [50.0] * stalls
    assert hodges_lehmann([0.1] * (fewest - stalls) + wild, 0.999).high < 1
    assert hodges_lehmann([0.1] * (fewest - 1 - stalls) + wild, 0.999).high > 1


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=30), st.floats(0.5, 0.999))
def test_the_estimate_lies_in_its_interval_and_turns_with_the_sign(values, level):
    there = hodges_lehmann(values, level)
    back = hodges_lehmann([-value for value in values], level)
    assert there.low <= there.middle <= there.high
    assert there.low == pytest.approx(-back.high)
    assert there.middle == pytest.approx(-back.middle)


def test_a_few_wild_values_hardly_move_the_estimate():
    calm = [0.1 + 0.001 * i for i in range(40)]
    wild = [*calm[:-2], 50.0, 80.0]
    assert hodges_lehmann(wild, 0.95).middle == pytest.approx(hodges_lehmann(calm, 0.95).middle, abs=0.005)


def test_thousands_of_values_are_folded_and_none_is_left_out():
    values = np.random.default_rng(2).normal(0.3, 1.0, size=9000)
    interval = hodges_lehmann(list(values), 0.95)
    assert interval.middle == pytest.approx(values.mean(), abs=0.02)
    assert interval.width == pytest.approx(2 * 1.96 / math.sqrt(9000), rel=0.15)


def test_the_gain_is_the_share_of_the_controls_time():
    saved = gain([2.0] * 10, [1.5] * 10, 0.95)
    assert saved.middle == pytest.approx(0.25)
    slower = gain([1.0] * 10, [1.25] * 10, 0.95)
    assert slower.middle == pytest.approx(-0.25)


def test_a_share_and_its_log_ratio_are_two_ways_to_say_one_thing():
    ratio = as_log_ratio(0.1)
    assert ratio == pytest.approx(math.log(1 / 0.9))
    with pytest.raises(ValueError, match="cannot be saved"):
        as_log_ratio(1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="positive, finite"):
        log_ratios([1.0, bad], [1.0, 1.0])


def test_unpaired_samples_are_refused():
    with pytest.raises(ValueError, match="cannot be paired"):
        log_ratios([1.0, 2.0], [1.0])


def test_steps_in_bursts_fool_the_ranks_but_not_the_total():
    control, bursts = [1.0] * 40, ([0.8] * 7 + [2.4]) * 5
    assert gain(control, bursts, 0.95).low > 0.1
    assert total_gain(control, bursts) < 0.1


def test_a_rare_stall_does_not_move_the_total():
    assert total_gain([1.0] * 40, [0.9] * 39 + [60.0]) == pytest.approx(0.1)


def test_stalls_of_the_machine_are_forgiven_and_stalls_of_one_side_are_not():
    quick, slow = [0.9] * 96, [1.0] * 96
    both = total_gain([*slow, *[30.0] * 4], [*quick, *[30.0] * 4])
    one = total_gain([*slow, *[1.0] * 4], [*quick, *[30.0] * 4])
    assert both == pytest.approx(0.1)
    assert one < -0.5


def test_sign_flip_is_the_exact_randomisation_test():
    values = [0.3, -0.1, 0.25, 0.4, 0.05, 0.2]
    exact = stats.permutation_test(
        (np.array(values),), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip(values) == pytest.approx(exact.pvalue)
    assert sign_flip([0.0, 0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="21 values"):
        sign_flip([1.0] * 21)


def test_the_interval_covers_heavy_tailed_noise_as_often_as_it_says():
    chance = np.random.default_rng(3)
    covered = sum(hodges_lehmann(list(chance.standard_t(1.5, size=15)), 0.9).holds(0.0) for _ in range(600))
    assert covered / 600 > 0.9 - 3 * math.sqrt(0.9 * 0.1 / 600)


def test_drift_common_to_both_sides_of_a_pair_cancels():
    chance = random.Random(4)
    drift = [1.0 + 0.4 * math.sin(i / 5) for i in range(60)]
    control = [level * chance.lognormvariate(0, 0.01) for level in drift]
    treatment = [0.9 * level * chance.lognormvariate(0, 0.01) for level in drift]
    saved = gain(control, treatment, 0.99)
    assert saved.holds(0.1)
    assert saved.width < 0.02
