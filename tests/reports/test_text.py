"""A run in the terminal."""

import subprocess
import sys
from typing import NamedTuple

import pytest

from netdyno.reports import text
from reports import specimens

RECORDS = specimens.every()


class Summary(NamedTuple):
    id: str
    made_at: str
    target: str
    says: str


def squeezed(said):
    return " ".join(said.split())


@pytest.mark.parametrize("name", sorted(RECORDS))
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(name, width):
    lines = text.render(RECORDS[name], width=width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [60, 120])
def test_everything_that_matters_stands_at_any_width(width):
    said = squeezed(text.render(specimens.golden(), width=width))
    for sentence in (
        "1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)",
        "saves 3.52 (3.34 to 3.71)",
        "rows and residual add up to the measured total of 5.60 ms (5.44 to 5.77 ms) per step",
        "evidence data 5.10 ms, step 12.2 ms",
        "place work.py:34 in Digits.train",
        "looked and found nothing: compute-bound, hidden-syncs, oversubscribed-threads",
        "not looked: gpu-starved (no KernelTable was collected)",
        "29 % (28 to 30 %)",
        "the model has no embedding that is looked up and reduced",
        "256 in 6 trials",
    ):
        assert sentence in said


def test_a_terminal_is_read_from_its_end_where_waterfall_and_answer_stand():
    lines = text.render(specimens.golden(), width=100).splitlines()
    assert lines[-1] == "1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)"
    headings = [line for line in lines if line.startswith("──")]
    assert "Where the gain comes from" in headings[-1]


def test_colour_adds_nothing_but_colour():
    import re

    plain = text.render(specimens.golden(), width=100)
    painted = text.render(specimens.golden(), width=100, colour=True)
    assert "\x1b[" in painted
    bare = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", painted).splitlines()]
    assert "\n".join(bare).strip("\n") == plain.strip("\n")


def test_the_environment_is_not_asked(monkeypatch):
    expected = text.render(specimens.golden(), width=80, colour=True)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert text.render(specimens.golden(), width=80, colour=True) == expected


def test_markup_of_other_people_is_text():
    assert "[bold]{{ 7 * 7 }}" in text.render(specimens.hostile(), width=200)


def test_decisions_read_without_colour():
    said = text.render(specimens.golden(), width=120)
    assert all(mark in said for mark in ("✓ kept", "✗ dropped", "? undecided", "! failed"))


def test_a_guard_that_failed_is_the_reason():
    said = squeezed(text.render(specimens.golden(), width=60))
    assert "stability: validation loss spreads 0.031 (0.022 to 0.047) against 0.012 before" in said


def test_the_baseline_alone_has_memory_and_machine():
    said = squeezed(text.render_baseline(specimens.golden(), width=80))
    assert "activations 9.44 MB 68 %" in said
    assert "memory bandwidth 18.4 GB/s" in said
    assert "end to end one step" in said


def test_the_doctor_unfolds_one_cause_and_names_the_others():
    said = text.render_findings(specimens.outcomes(), width=100)
    assert said.count("evidence") == 1
    assert "also" in said


def test_the_doctor_unfolds_every_finding_when_asked():
    said = text.render_findings(specimens.outcomes(), everything=True, width=100)
    assert said.count("evidence") == 3
    assert "suspected (confidence 50 %)" in said


def test_a_doctor_who_finds_nothing_says_so():
    silent = tuple(outcome for outcome in specimens.outcomes() if outcome.finding is None)
    assert "no rule found anything" in text.render_findings(silent)


def test_the_machine_is_told_with_and_without_ceilings():
    bare = text.render_machine(specimens.environment())
    assert "Example Xeon" in bare
    assert "FLOP/s" not in bare
    whole = squeezed(text.render_machine(specimens.environment(), specimens.ceilings()))
    assert "matrix rate, float32 114 GFLOP/s, ridge at 6.20 FLOP/byte" in whole


@pytest.mark.parametrize("width", [60, 120])
def test_runs_are_listed_with_what_came_of_them(width):
    record = specimens.golden()
    row = Summary(record.id, record.made_at, "work.py:Digits", text.summary(record))
    said = squeezed(text.render_runs([row, row], width=width))
    assert said.count(record.id) == 2
    assert "1.82× faster" in said
    assert "2026-11-30 12:00" in said


def test_no_runs_is_an_answer():
    assert text.render_runs([]) == "no runs are stored here yet\n"


def test_an_unfinished_run_is_marked_in_the_list():
    assert text.summary(specimens.interrupted()).endswith("(unfinished)")


def test_smoke_faults_come_first_with_their_hint():
    lines = text.render_smoke(specimens.smoke(), width=80).splitlines()
    assert "1 wrong" in lines[0]
    assert lines[1].startswith("✗ checkpoint (wrong)")
    assert "hint: create it" in lines[2]


def test_only_what_is_needed_is_imported():
    code = (
        "import sys\nfrom netdyno.reports import text, html, markdown, json\n"
        "print([name for name in ('torch', 'matplotlib', 'jinja2', 'rich', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
