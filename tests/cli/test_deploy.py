"""`netdyno deploy` as it is typed, on a classifier that is trained in a blink."""

import json

import pytest

from netdyno.cli._app import main
from netdyno.records.deployment import Shipment
from netdyno.shipping.package import opened
from netdyno.store.documents import Documents

SHIP = """
import torch
from torch import nn
from torch.nn import functional as F

from netdyno import Release


def clouds(count, seed):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 4
    centres = 3 * torch.nn.functional.one_hot(labels, 8).float()
    return centres + torch.randn(count, 8, generator=draw), labels


def trained():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    inputs, labels = clouds(400, 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model.eval()


class Restless(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = trained()

    def forward(self, rows):
        return F.dropout(self.inside(rows), 0.5)


known = dict(example=lambda: clouds(4, 3)[0], calibration=lambda: clouds(200, 4), validation=lambda: clouds(1200, 5))
Clouds = Release(model=trained, **known)
Asleep = Release(model=Restless, **known)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "ship.py").write_text(SHIP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def deploy(*words):
    return main(["deploy", *words, "--progress", "none"])


def test_a_restless_module_stops_at_the_gate_with_the_fix(here, capsys):
    assert deploy("ship.py:Asleep") == 1
    out = capsys.readouterr().out
    assert out.startswith("stopped at the gate:")
    assert "repeat-determinism" in out.splitlines()[0]
    assert "fix:" in out
    assert not list(here.glob("*-package"))
    assert Documents().load(Shipment).candidates == ()


def test_a_sound_module_passes_the_gate_alone(here, capsys):
    assert deploy("ship.py:Clouds", "--gate-only", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert all(check["ok"] is not False or check["warning"] for check in found["gate"])
    assert found["candidates"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ship.py:Clouds", "--slo", "latency<=5ms"], "does not say which percentile"),
        (["ship.py:Clouds", "--only", "openvin"], "did you mean `openvino`?"),
        (["ship.py:Clouds", "--batches", "one"], "no list of whole numbers"),
        (["ship.py:Nothing"], "is not a release"),
        (["ship.py:Clouds", "--minimise", "joy"], "the goals are"),
        ([], "no release was named"),
    ],
)
def test_what_cannot_be_done_is_said_in_three_lines(here, capsys, words, says):
    assert deploy(*words) == 2
    err = capsys.readouterr().err
    assert says in err
    assert len(err.strip().splitlines()) == 3


@pytest.mark.slow
def test_a_module_is_shipped_and_the_package_answers_as_the_module_does(here, capsys):
    words = ("--only", "exported-program,torchscript", "--slo", "drop<=2%", "--batches", "1,4", "--html", "page.html")
    assert deploy("ship.py:Clouds", *words) == 0
    out, err = capsys.readouterr()
    shipment = Documents().load(Shipment)
    assert shipment.finished
    assert f"{shipment.candidates[shipment.winner].change.label}:" in out.replace("\n", " ")
    assert "package" in out
    assert ".netdyno/shipments/" in err
    package = opened("clouds-package")
    call = package.call()
    assert package.proven(call) <= package.manifest.allowed
    inputs, answers = package.example()
    assert (call(inputs)[0].argmax(1) == answers[0].argmax(1)).all()
    page = (here / "page.html").read_text()
    assert "The gate" in page
    capsys.readouterr()
    assert deploy("last", "--everything") == 0
    assert "How it was measured" in capsys.readouterr().out


@pytest.mark.slow
def test_an_objective_that_nothing_keeps_is_an_answer_with_the_nearest(here, capsys):
    assert deploy("ship.py:Clouds", "--only", "exported-program", "--slo", "p50<=1us", "--batches", "1") == 1
    out = capsys.readouterr().out
    assert out.startswith("no way to run it surely keeps the objective")
    assert "nearest is" in out
    assert not list(here.glob("*-package"))
