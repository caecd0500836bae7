"""P99 over P50, with an interval that holds."""

import numpy as np
import pytest

from netdyno.serving.jitter import jitter, steadied


def latencies(count, *, stalls, seed=0):
    """Milliseconds around 10; one in fifty stretches of ten waits for a stall of so many."""
    chance = np.random.default_rng(seed)
    taken = chance.normal(10, 0.5, count)
    for at in np.flatnonzero(chance.random(count // 10) < 0.05) * 10:
        taken[at : at + 10] += stalls
    return taken.tolist()


def test_a_steady_service_has_a_ratio_near_one():
    found = jitter(latencies(4000, stalls=0))
    assert 1.05 < found.low <= found.middle <= found.high < 1.2


def test_stalls_are_seen():
    assert jitter(latencies(4000, stalls=40)).low > 3


def test_the_interval_covers_the_truth_of_dependent_samples():
    low, high = np.quantile(latencies(400_000, stalls=3, seed=99), (0.5, 0.99))
    found = [jitter(latencies(4000, stalls=3, seed=seed)) for seed in range(40)]
    assert sum(one.low <= high / low <= one.high for one in found) >= 36


def test_before_and_after_are_told_apart_or_not():
    calmer = steadied(latencies(4000, stalls=40), latencies(4000, stalls=0, seed=1))
    assert calmer.ratio.high < 1
    alike = steadied(latencies(4000, stalls=3), latencies(4000, stalls=3, seed=1))
    assert alike.ratio.low < 1 < alike.ratio.high


def test_too_few_samples_have_no_p99():
    with pytest.raises(ValueError, match="too few"):
        jitter([1.0] * 100)
