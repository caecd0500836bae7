import pytest
from scipy.stats import binomtest

from netdyno.stats.shares import counted_share


@pytest.mark.parametrize(("hits", "looks"), [(0, 20), (1, 20), (27, 100), (20, 20)])
def test_the_interval_is_the_exact_one(hits, looks):
    exact = binomtest(hits, looks).proportion_ci(0.95, method="exact")
    found = counted_share(hits, looks)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert found.middle == hits / looks


def test_few_looks_say_little():
    assert counted_share(2, 20).width > 3 * counted_share(200, 2000).width


def test_a_share_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing"):
        counted_share(0, 0)
