"""`netdyno ui`: what it prints, how it ends."""

import importlib.util
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from netdyno.cli._app import main


def missing(monkeypatch, *names):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in names else there(name, *rest))


def test_without_its_packages_it_says_what_to_install(monkeypatch, capsys):
    missing(monkeypatch, "uvicorn", "plotly")
    assert main(["ui"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "`uvicorn`, `plotly` are not installed" in lines[1]
    assert "pip install 'netdyno[ui]'" in lines[2]


def test_an_address_that_cannot_be_had_is_said_in_three_lines(capsys):
    pytest.importorskip("uvicorn", reason="needs the extra `ui`")
    assert main(["ui", "--host", "192.0.2.1"]) == 2
    assert "192.0.2.1" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_without_a_word(tmp_path, number):
    pytest.importorskip("uvicorn", reason="needs the extra `ui`")
    words = [sys.executable, "-m", "netdyno", "ui", "--store", str(tmp_path), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            url = running.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert b"netdyno" in answer.read()
            running.send_signal(number)
            out, err = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
