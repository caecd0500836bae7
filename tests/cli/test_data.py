"""`netdyno data` as it is typed."""

import json

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.cli._app import main
from netdyno.cli.data import about_data, sick
from netdyno.records.audit import Audit
from netdyno.records.diagnosis import Finding, Outcome, Saving
from netdyno.store.documents import Documents


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arrays(path, *, leaked=0):
    view = specimen("images")
    val = view.parts["val"]
    x, y = val.x.copy(), val.y.copy()
    x[:leaked], y[:leaked] = view.train.x[:leaked], view.train.y[:leaked]
    np.savez(path, x_train=view.train.x, y_train=view.train.y, x_val=x, y_val=y)
    return str(path)


def test_a_clean_set_is_told_to_be_clean_and_the_look_is_kept(here, capsys):
    assert main(["data", arrays(here / "a.npz"), "--fail-on", "any"]) == 0
    out, err = capsys.readouterr()
    assert "nothing found" in out
    assert ".netdyno/audits/" in err
    assert Documents().load(Audit).finished
    assert main(["data", "last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_leak_is_found_named_drawn_and_fails_the_gate(here, capsys):
    target = arrays(here / "a.npz", leaked=40)
    assert main(["data", target, "--fail-on", "leaked-duplicates", "--html", "page.html", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"][0]["id"] == "leaked-duplicates"
    assert {each["split"] for each in told["findings"][0]["exhibits"]} == {"train", "val"}
    assert "data:image/png" in (here / "page.html").read_text()
    assert main(["data", "last", "--fail-on", "missing-class"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing.csv"],
        ["--fail-on", "leaky", "last"],
        ["last"],
        ["--sample", "3", "x.csv"],
        ["x.npz", "--target-column", "y"],
    ],
)
def test_what_cannot_be_done_is_said_in_three_lines(here, capsys, words):
    assert main(["data", *words]) == 2
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines() if line][-3:] == [
        "error:",
        "because",
        "hint:",
    ]


def finding(layer, stage="data"):
    return Finding(says="1", layer=layer, saves=Saving(low=0, high=0), because={}, fix="", stage=stage)


def test_of_a_watched_script_what_is_about_data_stays():
    outcomes = (
        Outcome(rule="a", state="found", finding=finding("data")),
        Outcome(rule="b", state="found", finding=finding("compute")),
        Outcome(rule="c", state="suspected", finding=finding("generalisation")),
        Outcome(rule="d", state="failed", reason="x"),
        Outcome(rule="e", state="clear"),
    )
    assert [each.rule for each in about_data(outcomes)] == ["a", "c", "d"]


def test_notes_and_suspicions_fail_no_gate_for_everything():
    note = Outcome(rule="a", state="found", finding=finding("data", "note"))
    guess = Outcome(rule="b", state="suspected", finding=finding("data"))
    assert not sick((note, guess), ("any",))
    assert sick((note,), ("a",))
    assert sick((Outcome(rule="c", state="found", finding=finding("data")),), ("any",))


SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(512, 10)
y = (x[:, 0] > 0).long()
x[7, 3] = float("nan")
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_a_script_is_watched_for_what_is_wrong_with_its_data(here, capsys):
    (here / "train.py").write_text(SCRIPT)
    assert main(["data", "train.py", "--json", "--fail-on", "any"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert all(each["layer"] in {"data", "generalisation"} for each in told["findings"])
    assert any("non-finite" in each["id"] for each in told["findings"])
