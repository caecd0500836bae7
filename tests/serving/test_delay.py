"""The queue delay, swept in virtual time."""

import pytest

from netdyno.serving import delay
from netdyno.serving.batches import Costs
from netdyno.serving.delay import chosen, simulated, swept
from netdyno.serving.warm_up import Sized, Warmed


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Enough for a P99 of sorts, and quick."""
    monkeypatch.setattr(delay, "REQUESTS", 200)


# A batch costs the same whatever its size: company is everything.
FLAT = Costs((1, 2, 4, 8, 16), (0.010,) * 5)
# A batch costs as much as its rows: company is nothing.
EVEN = Costs((1, 2, 4, 8), (0.010, 0.020, 0.040, 0.080))


def test_where_company_is_nothing_no_delay_is_chosen():
    found = swept(EVEN, EVEN.of, promise_s=0.1)
    assert found.delay_s == 0.0
    assert found.says.startswith("none: no delay carries 5% more")
    assert len(found.tried) == 7


def test_a_delay_is_only_chosen_for_what_it_carries():
    found = swept(FLAT, FLAT.of, promise_s=0.1)
    rates = {one.delay_s: one.rate for one in found.tried}
    assert rates[found.delay_s] * 1.05 >= max(rates.values())
    assert found.delay_s == 0.0 or rates[found.delay_s] >= 1.05 * rates[0.0]


def rate(costs, promise_s):
    return swept(costs, costs.of, promise_s=promise_s, shares=()).tried[0].rate


def test_a_promise_that_cannot_be_kept_is_told():
    found = swept(EVEN, EVEN.of, promise_s=0.005)
    assert (found.delay_s, found.says) == (0.0, "none: 5 ms cannot be kept at any rate, whatever the delay")


def test_a_longer_promise_carries_more():
    rates = [rate(FLAT, promise) for promise in (0.015, 0.03, 0.1)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_latencies_are_at_least_a_batch_and_the_same_every_time():
    first = simulated(EVEN, EVEN.of, rate=20, delay_s=0.0, requests=100)
    assert min(first) == pytest.approx(0.010)
    assert first == simulated(EVEN, EVEN.of, rate=20, delay_s=0.0, requests=100)


def test_an_idle_worker_adds_no_delay_however_long_it_may_be():
    latencies = simulated(EVEN, EVEN.of, rate=1.0, delay_s=0.5, requests=50)
    assert sorted(latencies)[25] == pytest.approx(0.010)


def test_without_a_promise_nobody_waits_and_a_persons_choice_stands():
    sizes = (Sized(1, 0.1, 0.1, (0.1,), same=True, worst=0.0), Sized(2, 0.1, 0.1, (0.15,), same=True, worst=0.0))
    warm = Warmed(lambda arrays: arrays, sizes, Costs((1, 2), (0.1, 0.15)), ())
    assert chosen(warm, promise_s=None, share=0.99, given=None).delay_s == 0.0
    assert chosen(warm, promise_s=1.0, share=0.99, given=0.003).delay_s == 0.003
    assert chosen(warm, promise_s=1.0, share=0.99, given=None).tried


def test_nobody_is_refused_in_a_trial_however_slow_it_is():
    latencies = simulated(EVEN, lambda rows: 50 * EVEN.of(rows), rate=90, delay_s=0.0)
    assert len(latencies) == 200
    assert max(latencies) > 10


def test_a_gain_that_is_only_just_worth_it_is_none():
    quick = Costs((1, 2), (1e-5, 1e-5))
    found = swept(quick, quick.of, promise_s=0.015)
    assert (found.delay_s == 0.0) == found.says.startswith("none")
