"""`netdyno load`: what it asks, what it refuses, what it prints."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from netdyno.cli._app import main
from netdyno.records.load import Load
from netdyno.serving import load as loads
from netdyno.store.documents import Documents
from serving.service import Service
from serving.specimens import toys, written  # noqa: F401  a fixture


@pytest.fixture(scope="module")
def service():
    pytest.importorskip("httptools", reason="the extra `ship` is not installed")
    running = Service()
    yield running
    running.close()


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loads, "WARM_UP_S", 0.1)

    def run(*words):
        status = main(["load", *map(str, words)])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_one_rate_is_offered_and_each_percentile_judged(told, service):
    status, out, _ = told(
        service.url, "--slo", "p50<=1s, p99<=10s, failures<=1%, drop<=1%", "--rate", 500, "--for", "0.2s"
    )
    assert status == 0
    assert "Poisson arrivals at 500/s" in out
    assert "yes p50<=1s" in out
    assert "yes p99<=10s" in out
    assert "yes failures<=1%" in out
    assert "?   drop<=1%" in out
    assert max(len(line) for line in out.split("\n\n")[1].splitlines()) <= 60


def test_without_a_rate_the_highest_that_holds_is_sought(told, service, tmp_path):
    # A promise that is not kept at any rate: the search goes down, and ends at its budget.
    (tmp_path / "body.json").write_text("{}")
    words = ("--for", "0.1s", "--start", 40, "--budget", "1s", "--fail-on-miss", "--body", "body.json")
    status, out, err = told(f"{service.url}/slow", "--slo", "p50<=250ms", *words)
    assert status == 1
    # On a machine that others have, it may be that nothing can be told: it is not called held either.
    assert "no rate held" in out or "no rate could be told to hold" in out
    assert "offering 40 requests per second" in err
    (line,) = Documents(tmp_path / ".netdyno").list(Load)
    kept = Documents(tmp_path / ".netdyno").load(Load, line.id)
    assert kept.held is None
    assert kept.probes[0].load.samples
    assert max(len(line) for line in out.splitlines() if "/s " in line and "verdict" not in line) <= 60


def test_a_search_goes_on_from_where_it_was(told, service, tmp_path):
    told(service.url, "--slo", "p50<=1us", "--for", "0.1s", "--start", 400, "--budget", "0.1s")
    shelf = Documents(tmp_path / ".netdyno")
    before = shelf.load(Load)
    assert not before.finished
    assert "another promise" in told("--resume", "last", "--slo", "p50<=1s")[2]
    told("--resume", "last", "--budget", "1s")
    after = shelf.load(Load)
    assert after.id == before.id
    assert after.probes[: len(before.probes)] == before.probes
    assert len(after.probes) > len(before.probes)


def test_json_alone_is_on_stdout(told, service):
    _, out, _ = told(service.url, "--rate", 800, "--for", "0.1s", "--json")
    found = json.loads(out)
    assert found["probes"][0]["load"]["due"] == len(found["probes"][0]["load"]["samples"])


def test_a_promised_rate_is_the_one_that_is_offered(told, service):
    _, out, _ = told(service.url, "--slo", "p50<=1s, rate>=150/s", "--for", "0.2s")
    assert "at 150/s" in out
    assert "yes rate>=150/s" in out


def test_files_are_sent_and_answers_compared(told, service, tmp_path):
    (tmp_path / "body.json").write_text("{}")
    (tmp_path / "answer.json").write_text('{"a": 1}')
    words = ("--body", "body.json", "--expect", "answer.json", "--rate", 600, "--for", "0.2s")
    assert "failed    0" in told(f"{service.url}/fine", *words)[1]
    assert "wrong answer" in told(f"{service.url}/wrong", *words)[1]


def test_headers_go_with_every_request_and_stay_out_of_the_record(told, service, tmp_path):
    (tmp_path / "secret.txt").write_text("Authorization: Bearer abc\n")
    status, *_ = told(service.url, "--headers", "secret.txt", "--rate", 800, "--for", "0.1s")
    assert status == 0
    assert "abc" not in next((tmp_path / ".netdyno/loads").glob("*.json")).read_text()
    (tmp_path / "secret.txt").write_text("abc\n")
    status, _, err = told(service.url, "--headers", "secret.txt")
    assert status == 2
    assert "Name: value" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "there is nothing to load"),
        (("http://192.0.2.1:8000",), "is not this machine"),
        (("http://127.0.0.1:1", "--slo", "latency<=15ms"), "which percentile"),
        (("http://127.0.0.1:1", "--find"), "no latency was promised"),
        (("http://127.0.0.1:1", "--rate", "-3"), "a rate is above zero"),
        (("nowhere",), "is no package"),
        (("nowhere", "--body", "x"), "does not go with a package"),
        (("http://127.0.0.1:1", "--scenario", "server"), "does not go with a service"),
        (("http://127.0.0.1:1", "--expect", "x"), "no request body"),
    ],
)
def test_what_cannot_be_done_is_said_in_three_lines(told, words, says):
    status, out, err = told(*words)
    assert status == 2
    assert says in err
    assert not out
    assert [line.split()[0] for line in err.strip().splitlines()[-3:]] == ["error:", "because", "hint:"]


def test_a_service_that_is_not_there_is_said(told):
    pytest.importorskip("httptools", reason="the extra `ship` is not installed")
    status, _, err = told("http://127.0.0.1:1", "--model", "m")
    assert status == 2
    assert "cannot reach" in err


def test_a_package_goes_through_loadgen(told, tmp_path):
    pytest.importorskip("mlperf_loadgen", reason="the extra `ship` is not installed")
    written(tmp_path / "toy")
    status, out, _ = told("toy/package", "--slo", "p50<=1s", "--for", "0.2s")
    assert status == 0
    assert "LoadGen scenario `single-stream`" in out
    assert "no MLPerf result" in out
    assert "yes p50<=1s" in out
    _, out, _ = told("toy/package", "--scenario", "offline", "--for", "0.1s")
    assert "samples per second" in out
    _, out, _ = told("toy/package", "--scenario", "server", "--rate", 50, "--slo", "p99<=1s", "--for", "0.2s")
    assert "INVALID" in out
    assert "more queries" in out


def test_a_locust_file_is_written_that_compiles(told, service, tmp_path):
    status, out, _ = told(service.url, "--locust", "load.py", "--rate", 20)
    assert status == 0
    assert out.split() == ["load.py", "load.jsonl"]
    compile((tmp_path / "load.py").read_text(), "load.py", "exec")
    turns = [json.loads(line) for line in (tmp_path / "load.jsonl").read_text().splitlines()]
    assert {turn["path"] for turn in turns} == {"/v2/models/sums/infer"}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("locust") is None, reason="locust is not installed")
def test_locust_runs_the_file(told, service, tmp_path):
    told(service.url, "--locust", "load.py", "--rate", 20)
    asked = service.asked["/v2/models/sums/infer"]
    words = (
        "-m",
        "locust",
        "-f",
        "load.py",
        "--headless",
        "--host",
        service.url,
        "--users",
        "20",
        "--spawn-rate",
        "20",
    )
    done = subprocess.run(
        [sys.executable, *words, "--run-time", "3s"], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert service.asked["/v2/models/sums/infer"] > asked + 10
