"""A package on its way to being ready, as a whole and without a network."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from serving.specimens import Toy, rows, toys, truth, written  # noqa: F401  the toys are a fixture

pytest.importorskip("prometheus_client", reason="needs the extra `ship`")

from netdyno.errors import NetdynoError
from netdyno.progress import silent
from netdyno.serving import serve
from netdyno.serving.batches import Costs
from netdyno.serving.serve import Service, Settings, application, asked, deadline_of, inference
from netdyno.serving.stability import probed
from netdyno.serving.warm_up import Warmed

INFER = "/v2/models/toy/infer"


def opened(package, work, **settings):
    """Open a service, do something with it, and close it."""

    async def whole():
        chosen = Settings(**settings)
        app = application(package, chosen, token=None)
        service = Service(package, app, chosen, url="http://here", token=None)
        try:
            started = await service.open(silent)
            return await work(app, started)
        finally:
            service.close()

    return asyncio.run(whole())


@pytest.fixture
def calls(monkeypatch):
    """Which row counts reach the model, and how often."""
    seen = Counter()
    load = Toy.load

    def counting(self, folder, running):
        call = load(self, folder, running)

        def counted(arrays):
            seen[len(arrays[0])] += 1
            return call(arrays)

        return counted

    monkeypatch.setattr(Toy, "load", counting)
    return seen


def test_every_allowed_size_was_run_before_it_is_ready_and_no_other_afterwards(tmp_path, calls):
    package = written(tmp_path)

    async def asking(app, started):
        assert app.ready
        assert set(calls) == {1, 2, 4, 8}
        assert min(calls.values()) >= 8
        for count in range(1, 9):
            status, _, _ = await asked(app, INFER, inference(package, rows(count)))
            assert status == 200
        assert set(calls) == {1, 2, 4, 8}

    opened(package, asking)


def test_what_is_slow_at_first_is_slow_before_it_is_ready(tmp_path, monkeypatch):
    """A runtime that compiles in the first four calls of each size: no client meets one of them (ledger A-245)."""
    late, counts = [], Counter()
    load = Toy.load

    def compiling(self, folder, running):
        call = load(self, folder, running)

        def counted(arrays):
            counts[len(arrays[0])] += 1
            late.append(counts[len(arrays[0])] <= 4)
            return call(arrays)

        return counted

    monkeypatch.setattr(Toy, "load", compiling)
    package = written(tmp_path)

    async def asking(app, started):
        assert sum(late) == 16
        late.clear()
        for count in (1, 2, 4, 8):
            await asked(app, INFER, inference(package, rows(count)))
        assert late == [False] * 4

    opened(package, asking)


def test_it_is_not_ready_before_it_has_proven_itself(tmp_path, monkeypatch):
    package = written(tmp_path)
    monkeypatch.setattr("serving.specimens.WEIGHTS", np.ones((4, 3), np.float32))

    async def never(app, started):
        raise AssertionError("it is ready")

    with pytest.raises(NetdynoError, match="does not answer its own example as it did"):
        opened(package, never)


@pytest.mark.parametrize("alone", [True, False])
def test_answers_under_load_are_those_of_single_requests(tmp_path, monkeypatch, alone):
    monkeypatch.setattr(serve, "inline", lambda warm: alone)
    package = written(tmp_path)

    async def asking(app, started):
        bodies = [inference(package, rows(1 + seed % 4, seed)) for seed in range(60)]
        single = [(await asked(app, INFER, body))[2] for body in bodies]
        together = await asyncio.gather(*(asked(app, INFER, body) for body in bodies))
        assert [answer for _, _, answer in together] == single
        return app.metrics.text("")[0].decode()

    text = opened(package, asking)
    assert 'netdyno_batch_rows_bucket{le="1.0"}' in text
    computed = float(next(line for line in text.splitlines() if line.startswith("netdyno_batch_rows_count")).split()[1])
    assert computed < 120  # some went together


def asked_again(mood, times):
    """A stability probe against an endpoint whose model has that mood."""
    call = Toy(mood).load(None, None)
    from netdyno.serving.batcher import Batcher, Inline
    from serving.test_app import Bench, body

    bench = Bench(worker=Inline(call))
    assert isinstance(bench.app.batcher, Batcher)
    with asyncio.Runner() as runner:
        return probed(lambda: runner.run(asked(bench.app, INFER, body()))[2], times=times)


def test_a_clean_model_answers_a_thousand_times_the_same():
    found = asked_again("", 1000)
    assert (found.asked, found.differ, found.example) == (1000, 0, None)
    assert found.share.high < 0.005


def test_planted_dropout_is_seen_at_the_endpoint():
    found = asked_again("dropout", 200)
    assert found.differ > 30
    assert found.example[0] != found.example[1]
    assert found.says.startswith(f"{found.differ} of 200 repeated answers differ")


def test_a_promise_bounds_how_long_anybody_waits():
    assert deadline_of(Settings()) is None
    assert deadline_of(Settings(promise_s=0.015)) == pytest.approx(0.075)
    assert deadline_of(Settings(promise_s=0.015, deadline_s=1.0)) == 1.0


def test_the_queue_holds_what_can_be_in_time(tmp_path):
    async def waiting(app, started):
        return started.waiting_rows

    assert opened(written(tmp_path), waiting, waiting_rows=7) == 7
    assert opened(written(tmp_path), waiting) == 4096  # a model this quick would work off more; memory is the limit
    assert opened(written(tmp_path), waiting, promise_s=1e-9) == 64


@pytest.mark.parametrize(("cores", "cost", "inline"), [(1, 1.0, True), (2, 1.0, False), (2, 1e-5, True)])
def test_the_model_runs_in_the_loop_where_a_thread_has_nothing_to_win(monkeypatch, cores, cost, inline):
    monkeypatch.setattr(serve, "cores", lambda: cores)
    assert serve.inline(Warmed(lambda arrays: arrays, (), Costs((1,), (cost,)), ())) is inline


def test_a_type_without_a_name_in_the_protocol_is_refused(tmp_path):
    from netdyno.records.deployment import Port, Signature

    package = written(tmp_path, signature=Signature(inputs=(Port(name="x", dtype="complex64", shape=(4,)),)))
    with pytest.raises(NetdynoError, match="for which the protocol has no name"):
        serve.servable(package)
