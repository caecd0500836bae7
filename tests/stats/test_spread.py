import math
from statistics import stdev

import numpy as np
import pytest
from scipy import stats

from netdyno.stats.paired import UNBOUNDED
from netdyno.stats.spread import (
    deviation,
    over_spawns,
    pooled_deviation,
    robust_noise,
    t_interval,
)


def test_the_deviation_of_few_values_is_known_badly_and_says_so():
    two = deviation([1.0, 2.0])
    assert two.middle == pytest.approx(stdev([1.0, 2.0]))
    assert two.high / two.middle == pytest.approx(31.9, abs=0.1)
    assert deviation([1.0]) is None


def test_the_interval_of_a_deviation_is_chi_square():
    values = list(np.random.default_rng(0).normal(size=12))
    found = deviation(values, 0.9)
    assert found.low == pytest.approx(math.sqrt(11 * stdev(values) ** 2 / stats.chi2.ppf(0.95, 11)))
    assert found.high == pytest.approx(math.sqrt(11 * stdev(values) ** 2 / stats.chi2.ppf(0.05, 11)))


def test_pooling_takes_each_group_around_its_own_mean():
    groups = ([1.0, 2.0, 3.0], [101.0, 102.0, 103.0], [7.0])
    assert pooled_deviation(groups).middle == pytest.approx(1.0)
    assert pooled_deviation(groups).width < deviation(groups[0]).width
    assert pooled_deviation(([1.0], [2.0])) is None


def test_student_is_students():
    values = [1.0, 2.0, 4.0, 4.5]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert t_interval(values, 0.95).low == pytest.approx(low)
    assert t_interval(values, 0.95).high == pytest.approx(high)
    with pytest.raises(ValueError, match="no values"):
        t_interval([], 0.95)


def test_one_spawn_decides_nothing_however_many_pairs_it_has():
    found = over_spawns([[0.1, 0.1001] * 200], 0.95)
    assert found.middle == pytest.approx(0.1, abs=1e-3)
    assert (found.low, found.high) == (-UNBOUNDED, UNBOUNDED)


def test_more_pairs_of_the_same_spawns_do_not_narrow_the_interval():
    luck = (0.02, -0.03, 0.01, 0.04, -0.01)
    few = over_spawns([[shift] * 3 for shift in luck], 0.95)
    many = over_spawns([[shift] * 300 for shift in luck], 0.95)
    assert many.width == pytest.approx(few.width)


def test_processes_with_luck_of_their_own_are_not_called_different():
    chance = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        spawns = [list(luck + chance.normal(0, 0.02, 5)) for luck in chance.normal(0, 0.03, 5)]
        wrong += not over_spawns(spawns, 0.95).holds(0.0)
    assert wrong / 300 < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)


def test_stalls_do_not_count_as_noise():
    chance = np.random.default_rng(2)
    treatment = np.exp(chance.normal(0, 0.05, 200))
    treatment[:5] *= 20
    assert robust_noise([1.0] * 200, list(treatment)) == pytest.approx(0.05, rel=0.2)


def test_a_coarse_clock_still_shows_noise():
    assert robust_noise([1.0] * 10, [1.0] * 8 + [1.1, 1.2]) > 0
    with pytest.raises(ValueError, match="1 pairs"):
        robust_noise([1.0], [1.0])
