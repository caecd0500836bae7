"""What clients are told, without a network: every path, every refusal, readiness, deadlines and metrics."""

import asyncio
import io
import json
import re

import numpy as np
import pytest

from serving.specimens import manifest, rows, toys, truth, written  # noqa: F401  the toys are a fixture

pytest.importorskip("prometheus_client", reason="needs the extra `ship`")

from netdyno.errors import NetdynoError
from netdyno.serving.app import App, Limits
from netdyno.serving.batcher import Batcher, Thread
from netdyno.serving.batches import Costs
from netdyno.serving.door import Door
from netdyno.serving.logs import LogLevel, Logs
from netdyno.serving.metrics import Metrics
from netdyno.serving.serve import asked, inference, rehearse
from netdyno.serving.virtual import Simulated
from netdyno.serving.virtual import run as in_virtual_time

INFER = "/v2/models/toy/infer"
COSTS = Costs((1, 2, 4, 8), (0.001, 0.001, 0.002, 0.003))


class Bench:
    """An application with everything around it."""

    def __init__(
        self,
        *,
        ready=True,
        worker=None,
        token=None,
        host="127.0.0.1",
        level=LogLevel.ALL,
        deadline_s=None,
        costs=COSTS,
        **settings,
    ):
        self.manifest = manifest()
        self.lines = io.BytesIO()
        self.metrics = Metrics(self.manifest)
        self.app = App(
            self.manifest,
            limits=Limits(rows=8, bytes=20_000, deadline_s=deadline_s),
            door=Door(host, token),
            metrics=self.metrics,
            logs=Logs(level, stream=self.lines),
        )
        if ready:
            worker = worker or Thread(truth)
            self.app.open(Batcher(worker, costs, ran=self.metrics.batch, **settings), rows(1))

    async def ask(self, path, body=b"", method="POST", **headers):
        given = tuple((name.replace("_", "-").encode(), str(value).encode()) for name, value in headers.items())
        status, answered, content = await asked(self.app, path, body, method=method, headers=given)
        return status, answered, json.loads(content) if answered[b"content-type"] == b"application/json" else content

    def logged(self):
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]


def ask(path, body=b"", method="POST", bench=None, **headers):
    bench = bench or Bench()
    return asyncio.run(bench.ask(path, body, method, **headers))


class Packaged:
    """As much of a package as `inference` reads."""

    manifest = manifest()


def body(count=1, seed=0):
    return inference(Packaged, rows(count, seed))


def test_an_inference_is_answered_as_the_model_does():
    status, headers, answer = ask(INFER, body(3))
    assert status == 200
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("scores", "FP32", [3, 3])
    assert np.array(output["data"], np.float32).tobytes() == truth(rows(3))[0].tobytes()
    assert int(headers[b"content-length"]) > 0


def test_the_version_may_be_named():
    assert ask("/v2/models/toy/versions/3/infer", body())[0] == 200
    status, _, answer = ask("/v2/models/toy/versions/4/infer", body())
    assert (status, answer["hint"]) == (404, "it is version `3`")


def test_curl_is_answered_with_labels():
    status, _, answer = ask("/predict", json.dumps({"inputs": rows(2)[0].tolist()}).encode())
    assert status == 200
    assert np.array(answer["outputs"]["scores"], np.float32).tobytes() == truth(rows(2))[0].tobytes()
    assert set(answer["labels"]) <= {"cat", "dog", "owl"}


def test_bytes_in_bytes_out():
    values = rows(2)[0]
    head = json.dumps(
        {
            "inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    status, headers, content = ask(
        INFER,
        head + values.tobytes(),
        content_type="application/octet-stream",
        inference_header_content_length=len(head),
    )
    assert (status, headers[b"content-type"]) == (200, b"application/octet-stream")
    assert content[int(headers[b"inference-header-content-length"]) :] == truth((values,))[0].tobytes()


@pytest.mark.parametrize(
    ("path", "method", "status", "words"),
    [
        ("/", "GET", 404, "/predict"),
        ("/v2/models/other", "GET", 404, "it is called `toy`"),
        ("/v2/models/toy/explain", "POST", 404, "nothing at this path"),
        ("/predict", "GET", 405, "takes POST, not GET"),
        (INFER, "PUT", 405, "takes POST"),
        ("/metrics", "POST", 405, "takes GET"),
    ],
)
def test_wrong_paths_and_methods(path, method, status, words):
    found, headers, answer = ask(path, method=method)
    assert found == status
    assert words in json.dumps(answer)
    assert (b"allow" in headers) == (status == 405)


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"content_type": "text/plain"}, 415, "content-type: application/json"),
        ({"content_type": "application/x-www-form-urlencoded"}, 415, "content-type: application/json"),
        ({"content_encoding": "gzip"}, 415, "compressed"),
        ({"content_length": 10**9}, 413, "20000 bytes"),
        ({"inference_header_content_length": "x"}, 400, "no number of bytes"),
        ({"x_deadline_ms": "soon"}, 422, "positive number"),
        ({"x_deadline_ms": "-1"}, 422, "positive number"),
        ({"x_deadline_ms": "nan"}, 422, "positive number"),
    ],
)
def test_wrong_headers(headers, status, words):
    found, _, answer = ask(INFER, body(), **headers)
    assert found == status
    assert words in json.dumps(answer)


def test_a_body_that_grows_too_large_is_not_read_on():
    bench = Bench()
    pieces = iter(range(100))

    async def receive():
        next(pieces)
        return {"type": "http.request", "body": b" " * 5000, "more_body": True}

    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    asyncio.run(bench.app({"type": "http", "method": "POST", "path": INFER, "headers": headers}, receive, send))
    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]
    assert next(pieces) == 5


def test_a_body_that_does_not_come_is_not_waited_for():
    bench = Bench(worker=Simulated(COSTS.of))

    async def receive():
        await asyncio.sleep(3600)

    sent = []

    async def send(message):
        sent.append(message)

    async def asking():
        headers = [(b"host", b"localhost")]
        await bench.app({"type": "http", "method": "POST", "path": INFER, "headers": headers}, receive, send)
        return asyncio.get_running_loop().time()

    assert in_virtual_time(asking()) == 10.0
    assert sent[0]["status"] == 408


def test_before_it_is_ready_it_is_alive_and_says_why():
    bench = Bench(ready=False)
    assert ask("/v2/health/live", method="GET", bench=bench)[0] == 200
    for path in ("/v2/health/ready", "/v2/models/toy/ready"):
        status, _, answer = ask(path, method="GET", bench=bench)
        assert (status, answer) == (503, {"ready": False, "error": "it is loading and warming up"})
    status, headers, _ = ask(INFER, body(), bench=bench)
    assert (status, headers[b"retry-after"]) == (503, b"1")


def test_while_it_ends_it_is_not_ready_and_answers_all_the_same():
    bench = Bench()
    assert ask("/v2/health/ready", method="GET", bench=bench)[2] == {"ready": True}
    bench.app.end()
    status, _, answer = ask("/v2/health/ready", method="GET", bench=bench)
    assert (status, answer["error"]) == (503, "it is ending")
    assert ask(INFER, body(), bench=bench)[0] == 200


def test_it_says_what_it_takes():
    _, _, answer = ask("/v2/models/toy", method="GET")
    assert answer["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert answer["outputs"] == [{"name": "scores", "datatype": "FP32", "shape": [-1, 3]}]
    assert answer["versions"] == ["3"]
    assert ask("/v2", method="GET")[2]["extensions"] == ["binary_tensor_data"]


def test_head_is_get_without_a_body():
    status, headers, content = ask("/metrics", method="HEAD")
    assert (status, content) == (200, b"")
    assert int(headers[b"content-length"]) > 0


def in_turn(bench, *requests):
    """Ask several at once, in virtual time."""

    async def all_of_them():
        return await asyncio.gather(*(bench.ask(INFER, body(), **headers) for headers in requests))

    return in_virtual_time(all_of_them())


SLOW = Costs((1,), (1.0,))


def test_a_full_queue_is_429_and_says_when_again():
    bench = Bench(worker=Simulated(SLOW.of), costs=SLOW, most_waiting=2)
    answers = in_turn(bench, *[{}] * 5)
    assert sorted(status for status, _, _ in answers) == [200, 200, 429, 429, 429]
    refused = next(headers for status, headers, _ in answers if status == 429)
    assert refused[b"retry-after"] == b"2"
    assert b'netdyno_refused_total{why="busy"} 3.0' in bench.metrics.text("")[0]


def test_a_deadline_that_passes_is_504():
    bench = Bench(worker=Simulated(SLOW.of), costs=SLOW)
    (answer,) = in_turn(bench, {"x_deadline_ms": 500})
    assert answer[0] == 504
    assert b'netdyno_refused_total{why="late"} 1.0' in bench.metrics.text("")[0]


def test_a_service_may_have_a_deadline_for_all():
    bench = Bench(worker=Simulated(SLOW.of), costs=SLOW, deadline_s=0.25)
    assert in_turn(bench, {})[0][0] == 504
    assert in_turn(Bench(worker=Simulated(SLOW.of), costs=SLOW, deadline_s=0.25), {"x_deadline_ms": 2000})[0][0] == 200


def served_by(call, values, bench_of=Bench):
    payload = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": values}]}).encode()
    bench = bench_of(worker=Thread(call))
    return (*ask(INFER, payload, bench=bench), bench)


def test_an_input_that_the_model_cannot_take_is_the_clients_fault():
    def picky(arrays):
        if (arrays[0] == 13).any():
            raise IndexError("13 is not in the vocabulary")
        return truth(arrays)

    status, _, answer, _ = served_by(picky, [13.0, 0, 0, 0])
    assert status == 422
    assert "13 is not in the vocabulary" in answer["error"]


def test_a_model_that_is_broken_is_not():
    def broken(arrays):
        raise RuntimeError("secret path")

    status, _, answer, bench = served_by(broken, [1.0, 0, 0, 0])
    assert status == 500
    assert "secret" not in json.dumps(answer)
    assert "secret path" in bench.logged()[-1]["says"]


def test_an_answer_that_is_not_finite_is_told_as_such():
    status, _, answer, _ = served_by(lambda arrays: (np.full((1, 3), np.inf, np.float32),), [1e38, 0, 0, 0])
    assert status == 422
    assert "not finite" in answer["error"]


def test_metrics_are_in_the_format_that_is_asked_for():
    bench = Bench()
    ask(INFER, body(), bench=bench)
    ask("/nowhere", bench=bench)
    status, headers, text = ask("/metrics", method="GET", bench=bench)
    assert (status, headers[b"content-type"].startswith(b"text/plain; version=")) == (200, True)
    assert f'netdyno_requests_total{{path="{INFER}",status="200"}} 1.0' in text.decode()
    assert 'netdyno_requests_total{path="other",status="404"} 1.0' in text.decode()
    for name in ("request_seconds", "queue_seconds", "batch_rows", "model_seconds"):
        assert re.search(rf"^netdyno_{name}_count 1\.0$", text.decode(), re.MULTILINE), name
    assert "netdyno_in_flight 0.0" in text.decode()
    assert "netdyno_ready 1.0" in text.decode()
    _, headers, _ = ask("/metrics", method="GET", bench=bench, accept="application/openmetrics-text; version=1.0.0")
    assert headers[b"content-type"].startswith(b"application/openmetrics-text")


def test_every_request_has_an_id_and_a_line():
    bench = Bench()
    _, headers, _ = ask(INFER, body(), bench=bench, x_request_id="order-17")
    assert headers[b"x-request-id"] == b"order-17"
    _, headers, _ = ask("/nowhere", bench=bench, x_request_id="a\nb")
    fresh = headers[b"x-request-id"].decode()
    first, second = bench.logged()
    assert (first["id"], first["status"], first["path"]) == ("order-17", 200, INFER)
    assert (second["id"], second["status"]) == (fresh, 404)
    assert "\n" not in fresh


def test_usually_only_problems_get_a_line():
    bench = Bench(level=LogLevel.PROBLEMS)
    ask(INFER, body(), bench=bench)
    ask("/nowhere", bench=bench)
    assert [line["status"] for line in bench.logged()] == [404]


def test_a_token_is_asked_for_where_others_can_reach_it():
    bench = Bench(token="0123456789abcdef", host="0.0.0.0")
    status, headers, _ = ask(INFER, body(), bench=bench)
    assert (status, headers[b"www-authenticate"]) == (401, b"Bearer")
    assert ask(INFER, body(), bench=bench, authorization="Bearer 0123456789abcdee")[0] == 401
    assert ask(INFER, body(), bench=bench, authorization="Bearer 0123456789abcdef", host="any.name")[0] == 200
    assert ask("/metrics", method="GET", bench=bench)[0] == 401
    assert ask("/v2/health/ready", method="GET", bench=bench)[0] == 200


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:80", 200), ("127.0.0.1", 200), ("[::1]:8", 200), ("evil.example", 421)]
)
def test_on_the_loopback_pages_of_other_names_are_kept_out(host, status):
    assert ask(INFER, body(), host=host)[0] == status


def test_many_different_requests_at_once_get_their_own_answers():
    bench = Bench(most_waiting=1000)

    async def all_of_them():
        return await asyncio.gather(*(bench.ask(INFER, body(1 + seed % 3, seed)) for seed in range(200)))

    answers = asyncio.run(all_of_them())
    for seed, (status, _, answer) in enumerate(answers):
        assert status == 200
        wanted = truth(rows(1 + seed % 3, seed))[0]
        assert np.array(answer["outputs"][0]["data"], np.float32).tobytes() == wanted.tobytes()


def test_a_rehearsal_leaves_no_trace_and_fails_aloud(tmp_path):
    bench = Bench()
    package = written(tmp_path)

    async def rehearsed():
        await rehearse(package, bench.app.batcher, package.example()[0], [1, 8])

    asyncio.run(rehearsed())
    text = bench.metrics.text("")[0].decode()
    assert "netdyno_requests_total{" not in text
    assert bench.logged() == []
    bench.app.batcher.worker.call = lambda arrays: (np.full((len(arrays[0]), 3), np.nan, np.float32),)
    with pytest.raises(NetdynoError, match="not finite"):
        asyncio.run(rehearsed())
