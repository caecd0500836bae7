import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.stats.paired import UNBOUNDED, fewest_pairs, hodges_lehmann
from netdyno.stats.sequential import (
    campaign_error,
    look_error,
    pairs_needed,
    schedule,
    smallest_effect,
)


@given(st.integers(1, 60), st.integers(0, 800), st.floats(1e-5, 0.2))
def test_looks_grow_to_the_last_pair_and_spend_exactly_the_error(fewest, more, error):
    plan = schedule(fewest, fewest + more, error)
    assert list(plan.looks) == sorted(set(plan.looks))
    assert plan.looks[-1] == fewest + more
    assert plan.looks[0] >= fewest
    assert sum(plan.alphas) == pytest.approx(error)
    assert all(alpha > 0 for alpha in plan.alphas)


def test_no_look_is_taken_before_it_could_decide_anything():
    plan = schedule(4, 400, 0.004)
    assert plan.looks[0] >= fewest_pairs(plan.alphas[0])
    assert len(plan.looks) < 14


def test_a_range_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a range"):
        schedule(10, 5, 0.05)
    with pytest.raises(ValueError, match="cannot be spent"):
        schedule(5, 10, 0.0)


def test_a_look_off_the_schedule_spends_what_its_pairs_released():
    assert look_error((), planned=100, error=0.05) == 0.05
    assert look_error((30,), planned=100, error=0.05) == pytest.approx(0.015)
    assert look_error((30, 37), planned=100, error=0.05) == pytest.approx(0.0035)
    assert look_error((30, 100, 140), planned=100, error=0.05) == 0.0
    assert look_error((30,), planned=0, error=0.05) == 0.05


def test_the_campaign_shares_one_error_among_its_trials():
    assert campaign_error(0.05, 10) == pytest.approx(0.005)
    assert campaign_error(0.05, 0) == 0.05


def test_pairs_grow_with_the_square_of_the_noise_and_stay_in_their_bounds():
    few = pairs_needed(0.05, 0.05, 0.005, minimum=1, maximum=10_000)
    many = pairs_needed(0.20, 0.05, 0.005, minimum=1, maximum=10_000)
    assert many == pytest.approx(16 * few, rel=0.1)
    assert pairs_needed(5.0, 0.05, 0.005) == 400
    assert pairs_needed(0.05, 0.0, 0.005) == 400
    assert pairs_needed(1e-6, 0.05, 0.005, minimum=3) == fewest_pairs(0.005 * (1 - 1 / 1.4), stalls=1)


def test_the_smallest_effect_is_the_inverse_of_the_pairs_needed():
    effect = smallest_effect(0.1, 120, 0.004)
    assert pairs_needed(0.1, effect, 0.004) == pytest.approx(120, abs=1)
    assert smallest_effect(0.1, 5, 0.004) == UNBOUNDED


def test_the_promised_pairs_find_the_promised_effect_nine_times_in_ten():
    error, noise, margin = 0.01, 0.1, 0.05
    pairs = pairs_needed(noise, margin, error, maximum=10_000)
    last = error * (1 - 1 / 1.4)
    chance = np.random.default_rng(0)
    found = sum(hodges_lehmann(list(chance.normal(margin, noise, pairs)), 1 - last).low > 0 for _ in range(400))
    assert found / 400 == pytest.approx(0.9, abs=0.05)


def test_looking_again_and_again_keeps_the_error_of_the_whole_trial():
    plan = schedule(8, 60, 0.10)
    chance = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        values = list(chance.standard_t(3, size=60))
        wrong += any(
            not hodges_lehmann(values[:look], 1 - alpha).holds(0.0)
            for look, alpha in zip(plan.looks, plan.alphas, strict=True)
        )
    assert wrong / 400 < 0.10 + 2 * math.sqrt(0.1 * 0.9 / 400)
