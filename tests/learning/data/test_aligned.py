"""A validation set that speaks for the mix of use (ledger A-088)."""

from collections import Counter

import numpy as np
import pytest

from netdyno.errors import NetdynoError
from netdyno.learning.data.aligned import resampled, weighted_metric, weights

MIX = {"A": 0.3, "B": 0.7}
RIGHT = {"A": 0.95, "B": 0.70}  # how often a model is right in each domain
POPULATION = 0.3 * 0.95 + 0.7 * 0.70


def two_domains(seed, count=1000):
    """Nine tenths of the validation set are of A, of which use sees three."""
    chance = np.random.default_rng(seed)
    domains = ["A" if draw < 0.9 else "B" for draw in chance.random(count)]
    right = [float(chance.random() < RIGHT[domain]) for domain in domains]
    return right, domains


def test_the_weighted_metric_holds_the_population_s_as_often_as_its_level_says():
    found = [weighted_metric(*two_domains(seed), MIX) for seed in range(200)]
    held = sum(one.low <= POPULATION <= one.high for one in found)
    assert held >= 182  # 190 expected, less two deviations and a half
    assert np.mean([one.middle for one in found]) == pytest.approx(POPULATION, abs=0.01)
    plain = np.mean([np.mean(two_domains(seed)[0]) for seed in range(50)])
    assert plain > POPULATION + 0.1


def test_weights_give_the_same_mean_as_the_strata():
    right, domains = two_domains(0)
    by_weight = np.average(right, weights=weights(domains, MIX))
    assert by_weight == pytest.approx(weighted_metric(right, domains, MIX).middle)
    assert np.mean(weights(domains, MIX)) == pytest.approx(1.0)


def test_a_draw_has_the_shares_of_the_mix_and_no_sample_twice():
    _, domains = two_domains(0)
    drawn = resampled(domains, MIX)
    counts = Counter(domains[at] for at in drawn)
    assert len(set(drawn)) == len(drawn)
    assert counts["B"] / len(drawn) == pytest.approx(0.7, abs=0.01)
    assert counts["B"] == Counter(domains)["B"]


def test_a_domain_without_a_sample_is_told():
    with pytest.raises(NetdynoError, match="cannot align") as told:
        weights(["A", "A"], MIX)
    assert "no sample of `B`" in told.value.because
