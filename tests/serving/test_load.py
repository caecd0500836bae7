"""The search for the highest rate that holds, on services whose capacity is known."""

import itertools
import random

import pytest

from netdyno.records.load import Load, LoadPlan, Offered, Probe
from netdyno.serving import load as loads
from netdyno.stats.percentiles import percentile
from netdyno.verdicts import slo


def plan(text="p99<=20ms", **settings):
    return LoadPlan(objective=slo.parse(text), **{"start": 10, "probe_s": 1, "budget_s": 1e6, **settings})


def fresh(of):
    return Load(id="a", made_by="netdyno", made_at="2026-01-01", command="", target="http://127.0.0.1:1", plan=of)


def stretch(rate, samples, *, lags=None, **settings):
    return Offered(
        rate=rate, due=len(samples), samples=tuple(samples), lags=tuple(lags or [0.0] * len(samples)),
        percentiles=tuple(percentile(samples, share) for share in (0.5, 0.99)), **settings,
    )  # fmt: skip


class Simulated:
    """A service that takes 5 ms, and much longer from its capacity on; `flip` turns the answer of single probes round."""

    def __init__(self, capacity, *, flip=()):
        self.capacity, self.flip = capacity, set(flip)
        self.asked = []
        self.chance = random.Random(0)

    def __call__(self, rate, seconds):
        slow = (rate > self.capacity) != (len(self.asked) in self.flip)
        self.asked.append((rate, seconds))
        middle = 0.1 if slow else 0.005
        return stretch(rate, [middle * self.chance.uniform(0.9, 1.1) for _ in range(round(rate * seconds))])


@pytest.mark.parametrize("capacity", [3, 37, 480, 6000])
def test_the_capacity_lies_between_what_held_and_what_broke(capacity):
    found = loads.search(fresh(plan()), Simulated(capacity))
    assert found.finished
    assert found.held <= capacity < found.broken
    assert found.broken / found.held <= found.plan.precision
    assert found.ok is True
    assert f"held up to {found.held:.4g}/s" in found.says[0]


def test_the_edge_is_judged_twice_on_both_sides():
    found = loads.search(fresh(plan()), Simulated(100))
    rates = [probe.load.rate for probe in found.probes]
    assert rates.count(found.held) == 2
    assert rates.count(found.broken) == 2


def test_one_probe_spoilt_by_chance_does_not_decide():
    spoilt_at = next(
        at for at, (rate, _) in enumerate(searched(Simulated(100)).asked) if rate == pytest.approx(100, rel=0.05)
    )
    found = loads.search(fresh(plan()), Simulated(100, flip=[spoilt_at]))
    # The search may end a step lower, never above what the service can do.
    assert found.held <= 100
    assert found.held > 60


def searched(service):
    loads.search(fresh(plan()), service)
    return service


def test_a_probe_lasts_until_its_percentile_can_be_judged():
    service = Simulated(1000)
    loads.search(fresh(plan(probe_s=2)), service)
    for rate, seconds in service.asked:
        assert rate * seconds >= 1000 or seconds == 120
        assert seconds >= 2


def test_a_service_that_never_holds_and_one_that_always_does():
    never = loads.search(fresh(plan()), Simulated(0))
    assert never.held is None
    assert never.ok is False
    assert "no rate held" in never.says[0]
    always = loads.search(fresh(plan(most=1000)), Simulated(1e9))
    assert (always.held, always.broken) == (1000, None)
    assert "every rate" in always.says[0]


def test_a_search_that_was_cut_short_goes_on_where_it_was():
    whole = Simulated(100)
    once = loads.search(fresh(plan()), whole)
    kept = []
    with pytest.raises(KeyboardInterrupt):
        loads.search(fresh(plan()), interrupted(Simulated(100), after=4), save=kept.append)
    assert len(kept[-1].probes) == 4
    rest = Simulated(100)
    resumed = loads.search(kept[-1], rest)
    assert [rate for rate, _ in rest.asked] == [rate for rate, _ in whole.asked[4:]]
    assert (resumed.held, resumed.broken) == (once.held, once.broken)


def interrupted(service, *, after):
    def offer(rate, seconds):
        if len(service.asked) == after:
            raise KeyboardInterrupt
        return service(rate, seconds)

    return offer


def test_the_budget_ends_a_search_and_it_says_so():
    ticks = itertools.count(0, 60)
    found = loads.search(fresh(plan(budget_s=400)), Simulated(100), clock=lambda: next(ticks))
    assert not found.finished
    assert found.probes
    assert any("--resume" in says for says in found.says)


def test_a_rate_that_cannot_be_told_is_asked_once_more_for_longer():
    # Exactly one request in a hundred is slow, and P99 is promised: nobody can tell.
    def offer(rate, seconds):
        asked.append((rate, seconds))
        count = round(rate * seconds)
        return stretch(rate, [0.1 if at % 100 == 50 else 0.005 for at in range(count)])

    asked = []
    found = loads.search(fresh(plan(start=100, budget_s=1e5)), offer)
    assert asked[0][0] == asked[1][0] == 100
    assert asked[1][1] == 3 * asked[0][1]
    assert found.held is None
    assert found.broken is None
    assert found.ok is None


def test_lateness_of_the_generator_is_not_held_against_the_service():
    samples = [0.005] * 1800 + [0.05] * 200
    random.Random(1).shuffle(samples)
    lags = [0.045 if taken > 0.02 else 0.0 for taken in samples]
    assert loads.judged(stretch(100, samples), slo.parse("p99<=20ms")).ok is False
    excused = loads.judged(stretch(100, samples, lags=lags), slo.parse("p99<=20ms"))
    assert excused.ok is None
    assert "generator" in excused.says


def test_a_generator_without_a_core_left_decides_nothing():
    samples = [0.05] * 2000
    assert loads.judged(stretch(100, samples, generator_cpu=0.95), slo.parse("p99<=20ms")).ok is None


def test_a_machine_that_others_have_decides_nothing():
    samples = [0.05] * 2000
    starved = percentile([0.0] * 1000 + [0.03] * 1000, 0.99)
    probe = loads.judged(stretch(100, samples, lag=starved, given_up=True), slo.parse("p99<=20ms"))
    assert probe.ok is None
    assert "others had the cores" in probe.says
    # What is kept all the same is kept.
    assert loads.judged(stretch(100, [0.005] * 2000, lag=starved), slo.parse("p99<=20ms")).ok is True


def test_a_probe_is_long_enough_to_judge_failures_too():
    assert loads.probe_s(100, plan("p50<=1s, failures<=0.1%")) > 36
    assert loads.probe_s(100, plan("p50<=1s")) == 1


def test_failures_break_a_promise_that_limits_them():
    load = stretch(100, [0.005] * 2000, failures={"HTTP 503": 40})
    assert loads.judged(load, slo.parse("p50<=20ms, failures<=0.5%")).ok is False
    assert loads.judged(load, slo.parse("p50<=20ms, failures<=5%")).ok is True


def test_memory_of_the_service_is_judged_where_it_is_seen():
    promise = slo.parse("p50<=20ms, memory<=100MB")
    assert loads.judged(stretch(1, [0.005] * 200, server_bytes=2 * 10**8), promise).ok is False
    assert loads.judged(stretch(1, [0.005] * 200, server_bytes=10**7), promise).ok is True
    assert loads.judged(stretch(1, [0.005] * 200), promise).ok is None


def test_what_a_load_test_does_not_see_is_not_held_against_it():
    probe = loads.judged(stretch(1, [0.005] * 200), slo.parse("p50<=20ms, drop<=1%"))
    assert probe.ok is True
    assert [met.ok for met in probe.met] == [True, None]


@pytest.mark.parametrize(("promised", "ok"), [(50, True), (200, False)])
def test_a_promised_rate_is_judged_by_what_held(promised, ok):
    found = loads.search(fresh(plan(f"p99<=20ms, rate>={promised}/s")), Simulated(100))
    assert found.ok is ok
    assert [met.ok for met in found.met if met.constraint.quantity == "rate"] == [ok]


def test_hopeless_is_more_than_one_stall():
    watch = loads.hopeless(plan(), 1000)
    assert not any(watch(0.1) for _ in range(200))
    assert any(watch(0.1) for _ in range(20))


def test_an_overloaded_probe_is_broken_even_when_it_was_given_up():
    probe = loads.judged(stretch(100, [0.1] * 300, given_up=True), slo.parse("p99<=20ms"))
    assert probe.ok is False
    assert "given up" in probe.says


def test_majorities():
    def probes(*answers):
        return [Probe(load=stretch(10, [0.005] * 10), ok=ok) for ok in answers]

    assert loads.edge(probes(True, False, True)).held == 10
    assert loads.edge(probes(True, False)).held is None
    assert loads.edge(probes(None, True)).held == 10
    assert loads.edge(probes(None, None)) == loads.Edge(None, 10, broken=False)
    assert loads.edge(probes(True, False, False)) == loads.Edge(None, 10, broken=True)
