"""`netdyno serve`: what it prints, how it answers, how it ends."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from netdyno.cli._app import main
from serving.specimens import rows, toys, truth, written  # noqa: F401  the toys are a fixture

pytest.importorskip("uvicorn", reason="needs the extra `ship`")
pytest.importorskip("prometheus_client", reason="needs the extra `ship`")

# A process of its own with the toy among the runtimes, as tests in this process have it.
STARTED = """
import sys
sys.path.insert(0, {tests!r})
from serving.specimens import Toy
from netdyno.runtimes import _base
there = dict(_base.catalogue())
_base.catalogue = lambda: {{**there, "toy": Toy}}
from netdyno.cli._app import main
sys.exit(main(sys.argv[1:]))
"""


class Service:
    """A service in a process of its own."""

    def __init__(self, package, *words):
        code = STARTED.format(tests=str(Path(__file__).parent.parent))
        self.running = subprocess.Popen(
            [sys.executable, "-c", code, "serve", str(package.folder), "--port", "0", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.url = self.running.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.running.kill()
        self.running.wait()
        self.running.stdout.close()
        self.running.stderr.close()

    def ask(self, path, body=None, **headers):
        request = urllib.request.Request(
            self.url + path, data=body, headers={"content-type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


def plain(count=1, seed=0):
    return json.dumps({"inputs": rows(count, seed)[0].tolist()}).encode()


def test_it_prints_its_address_answers_and_ends_without_a_word(tmp_path):
    with Service(written(tmp_path), "--slo", "p99<=50ms") as service:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", service.url)
        assert service.ask("/v2/health/ready") == (200, {"ready": True})
        status, answer = service.ask("/predict", plain(3))
        assert status == 200
        assert np.array(answer["outputs"]["scores"], np.float32).tobytes() == truth(rows(3))[0].tobytes()
        assert service.ask("/predict", b"{")[0] == 400
        service.running.send_signal(signal.SIGTERM)
        out, err = service.running.communicate(timeout=30)
    assert service.running.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert "batches of 1, 2, 4, 8 rows are warm" in err
    assert "a request that takes longer than 250 ms is answered with 504" in err
    assert re.search(r"try: curl http://\S+/predict -H 'content-type: application/json' -d", err)
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [event["event"] for event in events] == ["ready", "request", "ending", "ended"]
    assert events[1]["status"] == 400


def test_a_signal_ends_it_only_when_those_who_asked_are_answered(tmp_path):
    with Service(written(tmp_path, "slow"), "--farewell", "0.5") as service:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(service.ask("/predict", b"[[7777, 0, 0, 0]]")))
        asking.start()
        time.sleep(0.3)  # it sleeps a second over such a row
        service.running.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        status, answer = service.ask("/v2/health/ready")
        assert (status, answer["error"]) == (503, "it is ending")
        asking.join(30)
        assert answers[0][0] == 200
        assert service.running.wait(30) == 0


def test_it_ends_by_itself_after_so_long(tmp_path):
    with Service(written(tmp_path), "--for", "0.2") as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert service.running.wait(30) == 0


def test_a_changed_package_is_not_loaded(tmp_path, capsys):
    package = written(tmp_path)
    (package.artifact / "weights").write_bytes(b"other")
    assert main(["serve", str(package.folder)]) == 2
    assert "nothing of it was loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("missing", "it needs `toys`"),
        ("dropout", "repeated calls gave other answers"),
    ],
)
def test_what_cannot_be_served_is_said_in_three_lines(tmp_path, capsys, mood, words):
    assert main(["serve", str(written(tmp_path, mood).folder), "--port", "0", "--progress", "none"]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("{")]
    assert len(err) == 3
    assert words in "\n".join(err)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--slo", "drop<=1%"], "it promises no latency"),
        (["--slo", "fast"], "cannot read the objective"),
        (["--delay", "-3"], "it is no length of time"),
        (["--token-file", "/nowhere"], "cannot read the token"),
        (["--host", "192.0.2.1"], "192.0.2.1"),
        (["--when-hot", "true"], "cannot switch profiles"),
        (["--engine", "torchserve"], "there is no such engine"),
        (["--engine", "ovms"], "add `--write FOLDER`"),
        (["--engine", "litserve", "--host", "0.0.0.0"], "it asks for no token"),
    ],
)
def test_what_is_asked_for_wrongly_is_said_in_three_lines(tmp_path, capsys, words, says):
    assert main(["serve", str(written(tmp_path).folder), "--progress", "none", *words]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 3
    assert says in err


def test_a_weak_token_is_refused(tmp_path, capsys):
    (tmp_path / "token").write_text("1234")
    assert main(["serve", str(written(tmp_path).folder), "--token-file", str(tmp_path / "token")]) == 2
    assert "fewer than 16 characters" in capsys.readouterr().err


def test_an_engines_files_are_written_and_named(tmp_path, capsys):
    folder = tmp_path / "files"
    assert main(["serve", str(written(tmp_path).folder), "--engine", "litserve", "--write", str(folder)]) == 0
    assert capsys.readouterr().out.split() == [str(folder / "serve.py")]
    assert "litserve.LitServer" in (folder / "serve.py").read_text()
