"""Two runs beside each other, and which may not be put there."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from netdyno.cli._app import main
from netdyno.store import Store
from reports.specimens import golden, interrupted


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with a run `first`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    shelf = Store(".netdyno")
    shelf.save(replace(golden(), id="first"))
    return shelf


@pytest.fixture
def compared(store, capsys):
    """Saves the golden run with changes as `second`, and compares `first` with it."""

    def run(*flags, environment=None, baseline=None, **more):
        here = golden()
        shown = {
            "environment": replace(here.environment, **(environment or {})),
            "baseline": replace(here.baseline, **baseline) if baseline is not None else here.baseline,
        }
        store.save(replace(here, id="second", **(shown | more)))
        status = main(["compare", "first", "second", *flags])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_changes_are_told_in_per_cent(compared):
    before = golden().baseline.peak_bytes
    status, out, err = compared(baseline={"peak_bytes": 2 * before, "epoch_s": golden().baseline.epoch_s / 2})
    assert (status, err) == (0, "")
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "+100 %" in lines["peak memory"]
    assert "−50 %" in lines["epoch"]
    assert "0 %" in lines["step"]
    assert "no verdict" in out


def test_what_cannot_be_compared_says_why(compared):
    _, out, _ = compared(baseline={"stability": None})
    (line,) = (line for line in out.splitlines() if line.startswith("std of validation loss over rounds"))
    assert "not measured" in line


def test_as_json_every_row_has_its_names(compared):
    status, out, _ = compared("--json", baseline={"peak_bytes": 3 * golden().baseline.peak_bytes})
    found = json.loads(out)
    rows = {row["quantity"]: row for row in found["rows"]}
    assert status == 0
    assert (found["before"], found["after"]) == ("first", "second")
    assert rows["peak memory"]["change"] == pytest.approx(2.0)
    assert rows["peak memory"]["better"] == "lower"
    assert rows["throughput"]["unit"] == "items/s"


@pytest.mark.parametrize(
    ("key", "value"), [("machine", "another"), ("torch", "0.1"), ("threads", 64), ("seed", 99), ("driver", "1.2")]
)
def test_runs_that_were_measured_otherwise_are_refused_by_the_key_that_differs(compared, key, value):
    status, out, err = compared(environment={key: value})
    assert (status, out) == (2, "")
    assert [line.split()[0] for line in err.strip().splitlines()] == ["error:", "because", "hint:"]
    assert f"`{key}`" in err
    assert f"`{value}`" in err


def test_runs_of_two_workloads_are_refused(compared):
    status, _, err = compared(target=replace(golden().target, name="another"))
    assert status == 2
    assert "`another`" in err


def test_a_run_without_a_baseline_is_refused_and_told_how_to_go_on(store, capsys):
    store.save(replace(interrupted(), id="early", baseline=None))
    assert main(["compare", "first", "early"]) == 2
    assert "--resume" in capsys.readouterr().err


def test_a_table_is_no_wider_than_a_small_terminal():
    from netdyno.reports import text
    from netdyno.verdicts.compare import compare

    rows = compare(golden(), golden())
    for width in (60, 80, 120):
        lines = text.render_comparison(("first", "second"), rows, width=width).splitlines()
        assert max(map(len, lines)) <= width


def test_it_needs_no_torch(compared, tmp_path):
    compared()
    code = (
        "import sys; from netdyno.cli._app import main; status = main(['compare', 'first', 'second']);"
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "peak memory" in done.stdout


def test_what_may_differ_can_be_allowed(compared):
    status, _, err = compared(environment={"threads": 7})
    assert status == 2
    assert "--allow threads" in err
    status, out, _ = compared("--allow", "threads,seed", environment={"threads": 7, "seed": 9})
    assert status == 0
    assert "no verdict" in out


def test_a_key_that_is_none_is_not_allowed_in_silence(compared):
    status, _, err = compared("--allow", "treads")
    assert status == 2
    assert "treads" in err
