"""LoadGen over a model: its scenarios are run, its verdict is shown, and it is called what it is."""

import time

import numpy as np
import pytest

from netdyno.errors import NetdynoError
from netdyno.serving.loadgen import loadgen, read, verdict
from netdyno.verdicts import slo

ROWS = (np.arange(80, dtype=np.float32).reshape(20, 4),)

# The form of what LoadGen 6 writes.
SUMMARY = """
Scenario : Server
Completed samples per second    : 187.61
Result is : INVALID
  Performance constraints satisfied : NO
  Min duration satisfied : Yes
  Early stopping satisfied: NO
Recommendations:
 * Reduce target QPS to
   improve latency.
Early Stopping Result:
 * Run unsuccessful.
 * Processed 190 queries.
 * Would need to run at least 269 more queries,
 with the run being successful if every additional
 query were under latency.

================================================
50.00 percentile latency (ns)   : 1245482
99.00 percentile latency (ns)   : 5263130
"""


def test_a_summary_is_read():
    run = read(SUMMARY, "server", answered=190)
    assert not run.valid
    assert run.rate == 187.61
    assert run.needs == 269
    assert run.reasons == ("performance constraints not satisfied", "early stopping not satisfied")
    assert run.advice == ("Reduce target QPS to improve latency.",)
    assert [(one.share, one.seconds) for one in run.percentiles] == [(0.5, 0.001245482), (0.99, 0.00526313)]


def test_what_is_no_summary_is_no_valid_run():
    run = read("nothing of the kind", "offline")
    assert not run.valid
    assert run.rate == 0


def test_server_without_a_limit_is_refused():
    pytest.importorskip("mlperf_loadgen", reason="the extra `ship` is not installed")
    with pytest.raises(NetdynoError, match="Server"):
        loadgen(lambda arrays: arrays, ROWS, "server", rate=10)


class TestRun:
    """With LoadGen itself."""

    @pytest.fixture(autouse=True)
    def here(self):
        pytest.importorskip("mlperf_loadgen", reason="the extra `ship` is not installed")

    def test_single_stream_asks_for_one_row_at_a_time(self):
        counts = []
        run = loadgen(recorded(counts), ROWS, "single-stream", seconds=0.3, queries=50)
        assert set(counts) == {1}
        assert run.valid
        assert run.queries >= 50
        assert {one.share for one in run.own} == {0.5, 0.9, 0.99}
        # The model sleeps for a millisecond: no figure may be below.
        assert min(one.seconds for one in (*run.own, *run.percentiles, *run.bounds)) >= 0.001
        assert any("asks for 600 s" in says or "ask for 600 s" in says for says in run.says)
        assert slo.kept(verdict(run, slo.parse("p50<=1s"))) is True
        assert slo.kept(verdict(run, slo.parse("p50<=1us"))) is False

    def test_offline_goes_in_batches(self):
        counts = []
        run = loadgen(recorded(counts), ROWS, "offline", seconds=0.3, batch=8)
        assert counts.count(8) > len(counts) / 2
        assert run.valid
        assert run.rate > 0
        assert verdict(run, slo.parse("rate>=1/s"))[0].ok is True
        assert verdict(run, slo.parse("rate>=1000000/s"))[0].ok is False

    def test_too_few_queries_for_the_percentile_are_said(self):
        run = loadgen(recorded([]), ROWS, "server", seconds=0.3, queries=10, rate=50, limit_s=5.0)
        assert not run.valid
        assert run.needs is not None
        assert f"INVALID: early stopping not satisfied, needs {run.needs} more queries" in run.says[0]
        assert verdict(run, slo.parse("p99<=5s"))[0].ok is None

    def test_a_limit_that_cannot_be_kept_is_broken(self):
        run = loadgen(recorded([]), ROWS, "server", seconds=0.3, queries=10, rate=100, limit_s=0.0005)
        assert verdict(run, slo.parse("p99<=0.5ms"))[0].ok is False

    def test_a_model_that_fails_ends_the_run_with_the_reason(self):
        def broken(arrays):
            calls.append(1)
            if len(calls) > 10:
                raise ArithmeticError("lost a digit")
            return arrays

        calls = []
        with pytest.raises(NetdynoError, match="failed under LoadGen") as error:
            loadgen(broken, ROWS, "single-stream", seconds=0.1, queries=20)
        assert "lost a digit" in error.value.because

    def test_nobody_says_mlperf_result(self):
        run = loadgen(recorded([]), ROWS, "single-stream", seconds=0.1, queries=20)
        assert not any("MLPerf result" in says for says in run.says)


def recorded(counts):
    def call(arrays):
        counts.append(len(arrays[0]))
        time.sleep(0.001)
        return arrays

    return call
