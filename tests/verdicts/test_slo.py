"""Objectives in words, and the verdict on each part, with the scripted case of ledger A-251."""

import pytest

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Percentile
from netdyno.records.measured import Interval
from netdyno.verdicts import slo


def p(share, ms, *, low=None, high=None, samples=2000, precise=True):
    interval = None if low is None else Interval(middle=ms / 1e3, low=low / 1e3, high=high / 1e3)
    return Percentile(share=share, seconds=ms / 1e3, interval=interval, samples=samples, precise=precise)


def one(text):
    (constraint,) = slo.parse(text)
    return constraint


def test_an_objective_is_read_in_base_units():
    found = {c.quantity: (c.limit, c.at_most) for c in slo.parse("p99<=15ms, drop<0.5%, memory ≤ 200 MB, rate≥100/s")}
    assert found == {"p99": (0.015, True), "drop": (0.005, True), "memory": (200e6, True), "rate": (100.0, False)}


@pytest.mark.parametrize(
    ("text", "limit"),
    [("p50<=900us", 900e-6), ("p50<=900µs", 900e-6), ("cold<=2s", 2.0), ("size<=1MiB", 2**20), ("size<=3kB", 3e3),
     ("memory<=1GB", 1e9), ("energy<=50mJ", 0.05), ("energy<=2 J", 2.0), ("power<=25W", 25.0), ("P99.9<=20ms", 0.02)],
)  # fmt: skip
def test_units(text, limit):
    assert one(text).limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "why"),
    [("p99<=15", "no unit"), ("p99<=15MB", "no unit of latency"), ("latency<=15ms", "which percentile"), ("", "empty"),
     ("p99>=15ms", "wrong side"), ("rate<=100/s", "wrong side"), ("swiftness<=1s", "nothing that is measured"),
     ("p99<=15ms, p99<=16ms", "limited twice"), ("p100<=1s", "no percentile"), ("p99<=0ms", "cannot be kept"),
     ("p99", "not `QUANTITY"), ("p99<=-1ms", "not `QUANTITY"), ("p99<=nanms", "not `QUANTITY")],
)  # fmt: skip
def test_nonsense_is_refused_in_three_lines(text, why):
    with pytest.raises(NetdynoError) as error:
        slo.parse(text)
    assert why in error.value.because
    assert len(str(error.value).splitlines()) == 3


def test_p50_passes_and_p99_fails_the_same_limit_and_each_says_which_percentile():
    measured = (p(0.5, 14.2, low=14.1, high=14.3), p(0.99, 15.1, low=15.02, high=15.4))
    middle, tail = slo.all_met(slo.parse("p50<=15ms, p99<=15ms"), percentiles=measured)
    assert (middle.ok, tail.ok) == (True, False)
    assert "P50 is 14.2 ms" in middle.says
    assert "P99 is 15.1 ms" in tail.says
    assert slo.kept((middle, tail)) is False


def test_figures_without_samples_are_compared_as_they_are():
    stated = (p(0.5, 14.2, samples=0), p(0.99, 15.1, samples=0))
    assert [m.ok for m in slo.all_met(slo.parse("p50<=15ms, p99<=15ms"), percentiles=stated)] == [True, False]


def test_a_limit_inside_the_interval_cannot_be_told():
    met = slo.met(one("p99<=15ms"), percentiles=(p(0.99, 14.9, low=14.2, high=15.8),))
    assert met.ok is None
    assert "cannot tell" in met.says
    assert slo.kept((met, slo.met(one("drop<=1%"), values={"drop": 0.001}))) is None


def test_too_few_samples_cannot_be_told_and_say_how_many_it_takes():
    met = slo.met(one("p99<=15ms"), percentiles=(p(0.99, 3.0, samples=100, precise=False),))
    assert met.ok is None
    assert "368" in met.says


def test_a_tail_without_an_interval_is_broken_when_the_middle_is():
    slow = (p(0.5, 40.0, low=39, high=41, samples=100), p(0.99, 60.0, samples=100, precise=False))
    assert slo.met(one("p99<=15ms"), percentiles=slow).ok is False


def test_an_imprecise_percentile_says_so():
    met = slo.met(one("p99<=15ms"), percentiles=(p(0.99, 9.0, low=8, high=10, samples=500, precise=False),))
    assert met.ok is True
    assert "500 samples, 1000 are asked for" in met.says


def test_a_percentile_that_was_not_taken_is_not_guessed_from_another():
    met = slo.met(one("p99.9<=15ms"), percentiles=(p(0.99, 1.0, low=0.9, high=1.1),))
    assert met.ok is None
    assert "not measured" in met.says


@pytest.mark.parametrize(
    ("text", "value", "ok"),
    [("drop<=0.5%", Interval(middle=0.001, low=-0.004, high=0.004), True), ("drop<=0.5%", Interval(middle=0.001, low=-0.01, high=0.02), None),
     ("drop<=0.5%", Interval(middle=0.02, low=0.01, high=0.03), False), ("rate>=100/s", 99.0, False), ("rate>=100/s", 100.0, True),
     ("memory<=200MB", 200e6, True), ("memory<=200MB", 201e6, False), ("power<=25W", 23.8, True), ("energy<=1J", None, None)],
)  # fmt: skip
def test_other_quantities_are_judged_alike(text, value, ok):
    values = {} if value is None else {one(text).quantity: value}
    assert slo.met(one(text), values=values).ok is ok


def test_samples_judge_by_how_many_lie_beyond_the_limit():
    quick = [0.001] * 990 + [0.02] * 10
    quick = [quick[617 * at % 1000] for at in range(1000)]
    kept = slo.met(one("p90<=15ms"), samples=quick)
    assert kept.ok is True
    assert "1 % of 1000 samples took longer than 15.0 ms" in kept.says
    assert slo.met(one("p99<=15ms"), samples=quick).ok is None
    assert slo.met(one("p99.9<=15ms"), samples=quick).ok is False
    assert slo.met(one("p99<=25ms"), samples=quick).ok is True
    assert slo.met(one("p99<=25ms"), samples=quick[:100]).ok is None
