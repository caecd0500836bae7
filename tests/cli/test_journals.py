"""Watched runs on the command line: listed, shown, examined, exported."""

import csv
import importlib
import json
import subprocess
import sys
import threading
import time

import pytest
import torch

import netdyno
from netdyno.cli._app import main
from netdyno.store.journal import Journal, new_info, runs

ALERT = {
    "cause": "exploding-gradients", "severity": "trip", "says": "the gradient norm is 1100", "update": 3, "seconds": 0.3,
    "fix": "halve the learning rate", "because": {"norm": 1100.0},
}  # fmt: skip


def watched(folder, name="digits", *, losses=(1.0, 0.5), alert=False, reason="ended", **tags):
    writes = Journal.create(folder, new_info(name, tags=tags, settings={"lr": 0.1}), flush_s=60.0)
    for update, loss in enumerate(losses, 1):
        writes.point("loss", update, loss, update / 10)
    if alert:
        writes.event("alert", 3, alert=ALERT)
    writes.event("costs", len(losses), looks_s={"losses": 0.01}, listening_s=0.02, pulse_s=0.0)
    writes.close(reason, len(losses))
    return writes.folder.name


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Runs a command in a folder with a store; answers with status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def store(tmp_path):
    return tmp_path / ".netdyno"


def test_a_tag_filters_exactly_its_runs(told, store):
    optim = {watched(store, "a", stage="optim"), watched(store, "b", stage="optim", who="ann")}
    data, bare = watched(store, "c", stage="data"), watched(store, "d")
    assert {run.folder.name for run in runs(store, tags={"stage": "optim"})} == optim
    assert {run.folder.name for run in runs(store)} == {*optim, data, bare}
    _, out, _ = told("journals", "--tag", "stage=optim", "--json")
    assert {row["id"] for row in json.loads(out)} == optim
    _, out, _ = told("journals", "--tag", "stage=optim", "--tag", "who=ann", "--json")
    assert [row["name"] for row in json.loads(out)] == ["b"]
    status, out, err = told("journals", "--tag", "stage=reg")
    assert (status, out) == (0, "")
    assert "no watched run with these tags" in err


def test_a_run_that_cannot_be_read_carries_no_tag_and_is_said_aloud(told, store):
    name = watched(store, stage="optim")
    (store / "journal" / name / "run.json").write_text('{"id": 3')
    good = watched(store, stage="optim")
    assert [run.folder.name for run in runs(store, tags={"stage": "optim"})] == [good]
    status, out, err = told("journals")
    assert status == 0
    assert good in out
    assert f"{name} cannot be read" in err


@pytest.mark.parametrize(("tag", "hint"), [("optim", "--tag optim=VALUE"), ("stage=optm", "`optim`")])
def test_what_is_no_tag_is_said_in_three_lines(told, tag, hint):
    status, _, err = told("journals", "--tag", tag)
    assert status == 2
    assert hint in err


def test_the_list_says_what_became_of_each(told, store):
    watched(store, "digits", alert=True, reason="failed", stage="optim")
    status, out, _ = told("journals")
    assert status == 0
    head, row = out.splitlines()
    assert head.split() == ["run", "name", "state", "updates", "loss", "tags", "alerts"]
    assert row.split()[1:] == ["digits", "failed", "3", "0.5", "stage=optim", "exploding-gradients"]


def test_one_run_shows_its_alerts_series_and_costs(told, store):
    name = watched(store, losses=(1.0, float("nan"), 0.25), alert=True)
    status, out, _ = told("journals", name[-4:])
    assert status == 0
    assert "the gradient norm is 1100" in out
    assert "norm: 1100" in out
    assert "looking took" in out
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("loss ")]
    assert row == ["loss", "3", "1", "0.25", "0.25", "1", "1"]
    _, out, _ = told("journals", "last", "--json")
    document = json.loads(out)
    assert document["series"][0]["most"] == 1.0
    assert document["alerts"][0]["because"] == {"norm": 1100.0}
    assert document["costs"]["looks_s"] == {"losses": 0.01}


def test_a_name_cannot_steer_the_terminal(told, store):
    watched(store, "a\x1b[2Jb", who="\x1b]0;x\x07")
    assert "\x1b" not in told("journals")[1] + told("journals", "last")[1]


@pytest.mark.parametrize("words", [("journals", "nowhere"), ("export", "nowhere", "--to", "csv")])
def test_a_run_that_is_not_there_is_said_in_three_lines(told, store, words):
    status, _, err = told(*words)
    assert status == 2
    assert "holds none yet" in err
    watched(store)
    assert "`netdyno journals` lists them" in told(*words)[2]


def test_a_part_of_several_ids_is_no_name(told, store):
    watched(store), watched(store)
    status, _, err = told("journals", "-")
    assert status == 2
    assert "a part of 2 ids" in err


def test_the_doctor_examines_a_journal(told, store):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with netdyno.watch(model, optimizer, store=store, quiet=True):
        for _ in range(40):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))
            loss.backward()
            optimizer.step()
            loss.item()
    status, out, _ = told("journals", "last", "--examine", "--json")
    assert status == 0
    document = json.loads(out)
    assert {outcome["state"] for outcome in document["outcomes"]} >= {"clear", "skipped"}
    assert told("journals", "last", "--examine")[0] == 0


def test_a_journal_without_a_ride_cannot_be_examined(told, store):
    watched(store)
    status, _, err = told("journals", "last", "--examine")
    assert status == 2
    assert "nothing that the rules read" in err
    assert told("journals", "--examine")[0] == 2


def test_a_run_is_exported_and_its_place_is_said(told, store):
    name = watched(store)
    status, out, _ = told("export", "digits", "--to", "csv")
    assert status == 0
    assert out.strip() == f".netdyno/exports/{name}.csv"
    with open(out.strip(), newline="") as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["1.0", "0.5"]


def test_a_run_that_goes_on_is_followed_to_its_end(told, store, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("netdyno.cli.export"), "LOOK_S", 0.01)
    writes = Journal.create(store, new_info("live", tags={}), flush_s=60.0)
    writes.point("loss", 1, 1.0)
    writes.flush()
    table = tmp_path / "live.csv"

    def go_on():
        while not (table.exists() and "loss,1," in table.read_text()):
            time.sleep(0.01)
        writes.point("loss", 2, 0.5)
        writes.close("ended", 2)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    status, _, _ = told("export", "live", "--to", "csv", "--follow", "--out", str(table))
    thread.join()
    assert status == 0
    assert [line.split(",")[1] for line in table.read_text().splitlines()] == ["update", "1", "2"]


def test_following_a_run_that_ended_ends(told, store, tmp_path):
    watched(store)
    status, _, _ = told("export", "last", "--to", "json", "--follow", "--out", str(tmp_path / "x.json"))
    assert status == 0
    assert json.loads((tmp_path / "x.json").read_text())["state"] == "ended"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no `--to` was given"),
        (("--to", "excel"), "no such exporter"),
        (("--to", "csv", "--out", "/dev/null/x"), "there is a file where the folder should be"),
    ],
)
def test_what_cannot_be_exported_is_said_in_three_lines(told, store, words, says):
    watched(store)
    status, _, err = told("export", "last", *words)
    assert status == 2
    assert says in err
    assert [line.split()[0] for line in err.strip().splitlines()] == ["error:", "because", "hint:"]


def test_reading_journals_does_not_import_torch(store, tmp_path):
    watched(store)
    code = (
        "import sys; from netdyno.cli._app import main\n"
        "for words in (['journals'], ['journals', 'last'], ['export', 'last', '--to', 'csv']):\n"
        "    assert main(words) == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
