"""A load test as text: what was judged stands there, failures are never hidden, and it can be read in a narrow window."""

import pytest

from netdyno.records.deployment import Met, Percentile
from netdyno.records.load import Load, LoadGenRun, LoadPlan, Offered, Probe
from netdyno.reports._load import text
from netdyno.stats.percentiles import percentile
from netdyno.verdicts import slo


def stretch(rate=100.0, **settings):
    samples = [0.001 * (at * 617 % 1009) / 100 for at in range(1, 1009)]
    return Offered(
        rate=rate, due=len(samples), samples=tuple(samples), connections=64, most_in_flight=3, generator_cpu=0.05,
        percentiles=tuple(percentile(samples, share) for share in (0.5, 0.9, 0.99)), **settings,
    )  # fmt: skip


def load(*probes, **settings):
    plan = LoadPlan(objective=slo.parse("p99<=15ms"))
    return Load(
        id="a", made_by="netdyno", made_at="2026-01-01", command="", target="http://127.0.0.1:8000", plan=plan,
        probes=probes, **settings,
    )  # fmt: skip


def test_failures_are_shown_with_their_reasons():
    found = text(load(Probe(load=stretch(failures={"HTTP 503": 30, "timeout": 4}))))
    assert "34 (3.37%): 30 HTTP 503, 4 timeout" in found


def test_an_imprecise_percentile_is_marked():
    few = Percentile(share=0.99, seconds=0.01, samples=200, precise=False)
    probe = Probe(load=Offered(rate=1.0, due=200, percentiles=(few,)))
    assert "imprecise, of 200 samples" in text(load(probe))


def test_a_search_is_a_table_of_sixty_columns():
    probes = [
        Probe(load=stretch(rate), ok=ok, says="held") for rate, ok in ((99999.5, True), (12345.0, False), (50.0, None))
    ]
    found = text(load(*probes), width=60)
    assert max(map(len, found.splitlines())) <= 60
    assert [word for word in ("held", "broken", "cannot tell") if word in found] == ["held", "broken", "cannot tell"]


def test_verdicts_hang_under_their_mark_in_a_narrow_window():
    (constraint,) = slo.parse("p99<=15ms")
    met = Met(constraint=constraint, ok=False, says="broken: " + "so it is " * 20)
    lines = text(load(Probe(load=stretch()), met=(met,)), width=60).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("NO  p99<=15ms"))
    assert lines[at + 1].startswith("    so")
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("needs", [111, None])
def test_an_invalid_run_of_loadgen_says_so(needs):
    run = LoadGenRun(
        scenario="server", valid=False, needs=needs, says=("LoadGen: INVALID: needs more",), target_rate=9.0
    )
    found = text(load(loadgen=run))
    assert "INVALID" in found
    assert "no MLPerf result" in found


def test_nothing_tried_is_still_text():
    assert "load test of" in text(load())
