"""Runs MLPerf LoadGen over a model in this process: its scenarios, its arrivals, its verdict on whether a run is valid.

What comes out are LoadGen figures. They are no MLPerf results: that name belongs to submissions that were reviewed.
"""

import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from netdyno.errors import NetdynoError
from netdyno.measure.latency import elapsed
from netdyno.records.deployment import Constraint, Met, Percentile
from netdyno.records.load import LoadGenRun, Scenario
from netdyno.runtimes._base import Arrays, Call, missing
from netdyno.stats.percentiles import percentile
from netdyno.verdicts import slo

# LoadGen's own rules ask for ten minutes of a submission; a shorter run is a figure for oneself.
OFFICIAL_S = 600.0
# The percentile that each scenario is about, in LoadGen's rules.
SHARE = {"single-stream": 0.9, "server": 0.99}
# A run that a model cannot finish must end: this many times what was asked, then LoadGen stops by itself.
PATIENCE = 3
SHARES = (0.5, 0.9, 0.99)
# No query goes through Python's hands any quicker.
LEAST_NS = 10_000
# What LoadGen and the thread that answers it take for a row, beside the model.
HANDED_S = 50e-6
NAMES = {"single-stream": "SingleStream", "offline": "Offline", "server": "Server"}


class Query(NamedTuple):
    """Some samples that LoadGen has asked for: the ids to answer to, and which rows."""

    ids: tuple[int, ...]
    rows: tuple[int, ...]


def loadgen(
    call: Call,
    rows: Arrays,
    scenario: Scenario,
    *,
    seconds: float = 10.0,
    queries: int = 100,
    batch: int = 1,
    rate: float | None = None,
    limit_s: float | None = None,
    share: float | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> LoadGenRun:
    """One scenario over `call`: `seconds` and `queries` at least. `rows` are the samples, of which one makes a query.

    Offline hands over everything at once and is answered in batches of `batch`; Server asks `rate` queries per second, Poisson, and takes at most
    `batch` that wait together. Raises NetdynoError where LoadGen is not installed, or a scenario lacks its settings.
    """
    _needed(scenario, rate=rate, limit_s=limit_s)
    import mlperf_loadgen as lg

    share = share or SHARE.get(scenario)
    single, together = _median_s(call, rows, 1), _median_s(call, rows, batch) + batch * HANDED_S
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, NAMES[scenario])
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = int(seconds * 1e3)
    settings.max_duration_ms = int(PATIENCE * seconds * 1e3)
    settings.min_query_count = 1 if scenario == "offline" else queries
    settings.qsl_rng_seed = settings.sample_index_rng_seed = settings.schedule_rng_seed = seed + 1
    # Queries are made beforehand for as long as the run should last, and a run that has used them up is invalid: better too many.
    settings.single_stream_expected_latency_ns = max(LEAST_NS, int(single * 1e9 / 4))
    # LoadGen makes the one query of Offline a tenth longer than it expects to last; so must its guess be honest.
    settings.offline_expected_qps = max(1.0, queries / seconds, batch / together)
    if scenario == "single-stream":
        settings.single_stream_target_latency_percentile = share
    if scenario == "server":
        settings.server_target_qps = rate
        settings.server_target_latency_ns = int((limit_s or 0) * 1e9)
        settings.server_target_latency_percentile = share
    desk = _Desk(lg, call, rows, batch)
    summary = _ran(lg, desk, settings, len(rows[0]))
    if scenario == "offline" and "Min duration satisfied : NO" in summary:
        # It was quicker than expected: once more, with as many rows as the time takes.
        settings.offline_expected_qps = 1.2 * read(summary, scenario).rate
        desk = _Desk(lg, call, rows, batch)
        summary = _ran(lg, desk, settings, len(rows[0]))
    if desk.broke is not None:
        raise NetdynoError(
            "the model failed under LoadGen", because=f"{type(desk.broke).__name__}: {desk.broke}",
            hint="run one row through it by itself; the figures of such a run are worth nothing",
        ) from desk.broke  # fmt: skip
    run = read(summary, scenario, answered=desk.answered, version=_version())
    # One query at a time: from when it was issued to its answer, as LoadGen counts. With several under way it alone knows.
    own = tuple(percentile(desk.taken, one, level) for one in SHARES) if scenario == "single-stream" else ()
    return replace(
        run, seconds=seconds, rows=batch, target_rate=rate if scenario == "server" else None,
        limit_s=limit_s if scenario == "server" else None, share=share, own=own, says=tuple(_says(run, seconds)),
    )  # fmt: skip


def _needed(scenario: Scenario, *, rate: float | None, limit_s: float | None) -> None:
    lacks = missing(("mlperf_loadgen",))
    if lacks is not None:
        raise NetdynoError("cannot run LoadGen", because=lacks.split(":")[0], hint=lacks.split(": ")[1])
    if scenario == "server" and (rate is None or limit_s is None):
        raise NetdynoError(
            "cannot run LoadGen's Server scenario",
            because="it asks at a rate and judges a percentile against a limit",
            hint='give both: `--rate 100 --slo "p99<=15ms"`',
        )


def _median_s(call: Call, rows: Arrays, count: int) -> float:
    """Seconds of a call with so many rows, after two that warm it up."""
    at = np.arange(count) % len(rows[0])

    def work() -> None:
        call(tuple(array[at] for array in rows))

    for _ in range(2):
        work()
    return sorted(elapsed(work) for _ in range(3))[1] or 1e-6


class _Desk:
    """Takes queries from LoadGen's thread and has one worker answer them, in the order they came.

    An answer that fails is given all the same: LoadGen waits for each of them for ever.
    """

    def __init__(self, lg: Any, call: Call, rows: Arrays, batch: int) -> None:
        self.lg, self.call, self.rows, self.batch = lg, call, rows, batch
        self.answered = 0
        self.taken: list[float] = []
        self.broke: Exception | None = None
        self._queue: SimpleQueue[Query | None] = SimpleQueue()
        self.worker = threading.Thread(target=self._work, daemon=True)

    def issue(self, samples: Any) -> None:
        """LoadGen's thread hands over; it must not wait for an answer, or the next arrival would be late."""
        self._issued = time.perf_counter()
        self._queue.put(Query(tuple(one.id for one in samples), tuple(one.index for one in samples)))

    def end(self) -> None:
        """Take no more, and wait for the last answer."""
        self._queue.put(None)
        self.worker.join()

    def _work(self) -> None:
        for query in self._together():
            for at in range(0, len(query.ids), self.batch):
                self._answer(query.ids[at : at + self.batch], query.rows[at : at + self.batch])

    def _together(self) -> Iterator[Query]:
        """Queries as they come, with what waits already put to them; nobody is waited for."""
        while (query := self._queue.get()) is not None:
            ids, rows = list(query.ids), list(query.rows)
            over = False
            while len(ids) < self.batch and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    over = True
                    break
                ids += more.ids
                rows += more.rows
            yield Query(tuple(ids), tuple(rows))
            if over:
                return

    def _answer(self, ids: tuple[int, ...], rows: tuple[int, ...]) -> None:
        try:
            if self.broke is None:
                self.call(tuple(array[list(rows)] for array in self.rows))
                self.answered += len(ids)
                self.taken.append(time.perf_counter() - self._issued)
        except Exception as error:
            self.broke = error
        self.lg.QuerySamplesComplete([self.lg.QuerySampleResponse(one, 0, 0) for one in ids])


def _ran(lg: Any, desk: _Desk, settings: Any, samples: int) -> str:
    """LoadGen's summary of a run. Its files go to a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        output, log = lg.LogOutputSettings(), lg.LogSettings()
        output.outdir, output.copy_summary_to_stdout = folder, False
        log.log_output, log.enable_trace = output, False
        desk.worker.start()
        sut = lg.ConstructSUT(desk.issue, lambda: None)
        library = lg.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
        try:
            lg.StartTestWithLogSettings(sut, library, settings, log, "")
        finally:
            desk.end()
            lg.DestroyQSL(library)
            lg.DestroySUT(sut)
        return (Path(folder) / "mlperf_log_summary.txt").read_text()


def _version() -> str:
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return metadata.version("mlcommons-loadgen")
    return ""


def read(summary: str, scenario: Scenario, *, answered: int = 0, version: str = "") -> LoadGenRun:
    """A run from what LoadGen wrote of it. What it does not say is not made up."""
    percentiles = tuple(
        Percentile(share=round(float(share) / 100, 9), seconds=int(ns) / 1e9, samples=answered)
        for share, ns in re.findall(r"^([\d.]+) percentile latency \(ns\)\s*: (\d+)", summary, re.MULTILINE)
    )
    bounds = tuple(
        Percentile(share=round(float(share) / 100, 9), seconds=int(ns) / 1e9, samples=answered)
        for share, ns in re.findall(r"Early stopping ([\d.]+)th percentile estimate: (\d+)", summary)
    )
    rates = (
        r"^Samples per second: ([\d.]+)", r"^Completed samples per second\s*: ([\d.]+)", r"^QPS w/o loadgen overhead\s*: ([\d.]+)"
    )  # fmt: skip
    found = [number for pattern in rates if (number := re.search(pattern, summary, re.MULTILINE))]
    more = re.search(r"Would need to run at least (\d+) more queries", summary)
    verdict = re.search(r"^Result is : (\w+)", summary, re.MULTILINE)
    unmet = re.findall(r"^ +([A-Z][\w ]+?) *satisfied *: NO", summary, re.MULTILINE)
    return LoadGenRun(
        scenario=scenario, valid=verdict is not None and verdict[1] == "VALID", queries=answered,
        rate=float(found[0][1]) if found else 0.0, percentiles=() if scenario == "offline" else percentiles, bounds=bounds,
        needs=int(more[1]) if more else None, reasons=tuple(f"{one.lower()} not satisfied" for one in unmet),
        advice=tuple(_advice(summary)), version=version, summary=summary,
    )  # fmt: skip


def _advice(summary: str) -> Iterator[str]:
    """What LoadGen recommends, a sentence each; its lines are wrapped."""
    part = summary.partition("Recommendations:")[2].partition("Early Stopping Result:")[0].partition("=====")[0]
    for item in re.split(r"^ \* ", part, flags=re.MULTILINE)[1:]:
        yield " ".join(item.split())


def _says(run: LoadGenRun, seconds: float) -> Iterator[str]:
    lacking = list(run.reasons)
    if run.needs is not None:
        lacking.append(f"needs {run.needs} more queries, all of them within the limit")
    yield "LoadGen: VALID" if run.valid else f"LoadGen: INVALID: {', '.join(lacking) or 'it does not say why'}"
    if seconds < OFFICIAL_S:
        yield f"a run of {seconds:g} s; LoadGen's rules ask for {OFFICIAL_S:g} s"


def verdict(run: LoadGenRun, objective: Sequence[Constraint]) -> tuple[Met, ...]:
    """What a run says of an objective. Of Server's limit LoadGen itself is the judge; offline rates have no interval.

    The rate of a single stream is no rate of a service, and is not judged.
    """
    values = {"rate": run.rate} if run.scenario == "offline" else {}
    if run.scenario == "server" and run.target_rate is not None and run.valid:
        values = {"rate": run.target_rate}
    found = list(slo.all_met(objective, percentiles=run.own, values=values))
    for at, met in enumerate(found):
        if run.scenario == "server" and slo.share_of(met.constraint) == run.share:
            broken = any("performance constraints" in reason for reason in run.reasons)
            found[at] = Met(
                constraint=met.constraint, ok=True if run.valid else False if broken else None, says=run.says[0]
            )
    return tuple(found)
