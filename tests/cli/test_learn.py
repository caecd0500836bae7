"""`netdyno learn` as it is typed, on a workload that trains in a blink."""

import json

import pytest

from netdyno.cli._app import main
from netdyno.learning import asked
from netdyno.records.study import Study
from netdyno.store.documents import Documents

WORK = """
import torch
from torch import nn

from netdyno import Workload


def clouds(count, seed):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    return labels[:, None] + 0.6 * torch.randn(count, 3, generator=draw), labels


Clouds = Workload(
    model=lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)),
    train=lambda: clouds(160, 1), val=lambda: clouds(80, 2), batch_size=20, epochs=2, threads=1,
)
"""
TINY = ["learn", "work.py:Clouds", "--only", "activation", "--seeds", "3", "--updates", "10", "--progress", "none"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "work.py").write_text(WORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_search_is_told_kept_and_shown_again_as_a_page(here, capsys):
    (here / "costs.json").write_text('{"costs": [[0, 5], [100, 0]], "review": 1}')
    limits = ["--time-limit", "1m", "--latency-limit", "1s", "--costs", "costs.json"]
    assert main([*TINY, *limits, "--html", "page.html"]) == 0
    out, err = capsys.readouterr()
    assert "worth it" in out
    assert "a person reviews" in out
    assert ".netdyno/studies/" in err
    study = Documents().load(Study)
    assert study.finished
    assert all(one.latency_s > 0 for one in study.candidates)
    page = (here / "page.html").read_text()
    assert "The ladder" in page
    assert "http" not in page.split("<main")[0].replace("http-equiv", "")
    capsys.readouterr()
    assert main(["learn", "last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == study.id


def test_the_runs_of_a_tag_are_shown_and_no_others(here, capsys):
    assert main(TINY) == 0
    capsys.readouterr()
    assert main(["learn", "last", "--runs", "arch", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    everything = Documents().load(Study).runs
    assert len(told["runs"]) == sum(run.stage == "arch" for run in everything) > 0
    assert {run["stage"] for run in told["runs"]} == {"arch"}
    assert main(["learn", "last", "--runs", "activation"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len([line for line in lines if line.startswith("arch activation")]) == sum(
        run.knob == "activation" for run in everything
    )


def test_a_learning_rate_brings_its_range_test_and_its_race(here, capsys):
    """Ledger A-038: every rate has its curve."""
    words = [
        "learn",
        "work.py:Clouds",
        "--only",
        "learning-rate",
        "--seeds",
        "3",
        "--updates",
        "40",
        "--progress",
        "none",
    ]
    assert main([*words, "--html", "page.html"]) == 0
    (sweep,) = Documents().load(Study).sweeps
    assert [curve.name for curve in sweep.curves] == ["learning-rate range", "learning-rate race"]
    assert sweep.verdict in ("kept", "not distinguishable", "no better")
    assert len([option for option in sweep.options if option.change is not None]) >= 4
    assert "learning rate" in (here / "page.html").read_text()


def test_a_finished_study_is_resumed_without_a_run(here, capsys):
    assert main(TINY) == 0
    before = Documents().load(Study)
    assert main(["learn", "--resume", before.id, "--progress", "none"]) == 0
    assert len(Documents().load(Study).runs) == len(before.runs)


def test_the_range_test_alone_trains_nothing_and_draws_its_curve(here, capsys):
    assert (
        main(["learn", "work.py:Clouds", "--range-test", "--seeds", "3", "--html", "range.html", "--progress", "none"])
        == 0
    )
    assert capsys.readouterr().out.strip()
    assert "<svg" in (here / "range.html").read_text()
    assert not (here / ".netdyno" / "studies").exists()


ASK = ["learn", "work.py:Clouds", "--seeds", "3", "--updates", "40", "--progress", "none"]


@pytest.mark.parametrize(
    ("question", "column"),
    [("rate", "rate"), ("optimizer", "optimizer"), ("batch", "batch size"), ("clip", "threshold")],
)
def test_one_question_is_answered_with_its_table_its_numbers_and_its_plot(here, capsys, monkeypatch, question, column):
    monkeypatch.setattr(asked, "KINDS", {"adamw": None, "nesterov": None})
    monkeypatch.setattr(asked, "OFFERED", ("adamw", "nesterov"))
    monkeypatch.setattr(asked, "FACTORS", (0.5,))
    assert main([*ASK, "--ask", question, "--json", "--html", "asked.html"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["asks"] == question
    assert told["says"]
    assert len({str(row[column]) for row in told["rows"]}) == len(told["rows"]) >= 2
    page = (here / "asked.html").read_text()
    assert "<svg" in page
    assert f"<td>{told['rows'][0][column]}" in page or question == "rate"
    assert not (here / ".netdyno" / "studies").exists()


def test_an_answer_is_read_on_a_terminal(here, capsys):
    assert main([*ASK, "--ask", "clip"]) == 0
    out = capsys.readouterr().out
    assert "percentile 90" in out
    assert "updates cut" in out


def test_what_does_not_fit_into_the_budget_is_said(here, capsys):
    assert main([*ASK, "--ask", "batch", "--budget", "1ms"]) == 2
    assert "budget" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["last"],
        ["work.py:Nothing"],
        ["work.py:Clouds", "--only", "activations"],
        ["work.py:Clouds", "--costs", "none.json"],
        ["work.py:Clouds", "--costs", "odd.json"],
        ["--resume", "none"],
    ],
)
def test_what_cannot_be_done_is_told_in_three_lines(here, capsys, words):
    (here / "odd.json").write_text('{"costs": [[0, 5]]}')
    assert main(["learn", *words, "--progress", "none"]) not in (0, 1)
    assert len(capsys.readouterr().err.strip().splitlines()) <= 4
