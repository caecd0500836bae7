"""Scripts that make it hard to ride along, or to stop: each gives its results, and leaves nobody behind."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from netdyno.errors import TargetError
from netdyno.scripts import launch as launching
from netdyno.scripts.launch import Following, launch
from netdyno.targets.script import Script

NASTY = Path(__file__).parent / "nasty"
# Who ends by itself is given long, for an interpreter with PyTorch takes its time to end; who does not is given short.
GRACE_S = 20.0
SHORT_S = 1.0


class Seen(NamedTuple):
    stream: object
    status: int | None
    out: str
    err: str
    left: list[int]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NASTY / "stand_in"), str(NASTY)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(launching, "TERM_S", 0.5)
    monkeypatch.setattr(launching, "LOOK_S", 0.5)


def script(*argv, cwd):
    return Script(argv=(sys.executable, *argv), cwd=cwd, name="nasty", file=None, kind="file")


def ridden(tmp_path, *argv, grace_s=GRACE_S, patience_s=120.0, **wishes):
    """Follow a nasty script to its end, as `ride` does, where it lies."""
    wishes = {"updates": 5, "grace_s": grace_s, **wishes}
    (tmp_path / "work").mkdir()
    with launch(script(*argv, cwd=tmp_path / "work"), folder=tmp_path / "told", **wishes) as launched:
        following = Following(launched, patience_s=patience_s, **wishes)
        following.to_the_end()
        launched.end()
        if (failure := launched.failure()) is not None:
            raise failure
        if launched.stream().training is None:
            raise launching.could_not_attach(launched)
        out, err = ((launched.folder / name).read_text() for name in ("stdout", "stderr"))
        return Seen(launched.stream(), launched.process.poll(), out, err, launched.members())


def nasty(name):
    return str(NASTY / f"{name}.py")


def test_an_ordinary_script_stops_at_its_update_with_status_zero_and_says_nothing(tmp_path):
    seen = ridden(tmp_path, nasty("plain"))
    assert (seen.stream.training.stopped.reason, seen.stream.updates) == ("updates", 5)
    assert (seen.status, seen.out, seen.err, seen.left) == (0, "", "", [])


def test_a_script_that_ends_by_itself_keeps_its_arguments_its_main_and_its_path(tmp_path):
    seen = ridden(tmp_path, nasty("plain"), "3")
    assert f"argv ['{nasty('plain')}', '3'] main __main__ path {NASTY}" in seen.out
    assert (seen.stream.training.stopped.reason, seen.stream.updates, seen.status) == ("ended", 3, 0)


def test_an_unseeded_script_starts_alike_each_time_and_a_nudge_changes_the_last_digits_only(tmp_path):
    def loss(folder, **wishes):
        folder.mkdir()
        return float(ridden(folder, nasty("plain"), "3", seed=7, **wishes).out.rpartition(" ")[2])

    first, second, nudged = loss(tmp_path / "a"), loss(tmp_path / "b"), loss(tmp_path / "c", nudge=1)
    assert first == second
    assert nudged != first
    assert nudged == pytest.approx(first, rel=1e-4)


def test_clean_up_in_finally_runs(tmp_path):
    seen = ridden(tmp_path, nasty("tidies_up"))
    assert (seen.out, seen.status) == ("tidied up after 4\n", 0)  # the fifth update was made, and its step left by Stop


def test_a_clean_up_that_takes_a_minute_is_cut_short_and_the_results_are_there(tmp_path):
    seen = ridden(tmp_path, nasty("long_tidy_up"), grace_s=SHORT_S)
    assert seen.stream.training.stopped.reason == "updates"
    assert (seen.status != 0, seen.left) == (True, [])


def test_except_keyboard_interrupt_does_not_catch_the_stop(tmp_path):
    seen = ridden(tmp_path, nasty("keyboard"))
    assert (seen.out, seen.status) == ("", 0)


@pytest.mark.parametrize(("name", "word"), [("swallows", "swallowed"), ("retries", "again SystemExit")])
def test_who_swallows_the_stop_meets_it_five_times_more_and_is_then_ended(tmp_path, name, word):
    seen = ridden(tmp_path, nasty(name), grace_s=SHORT_S)
    assert seen.out.count(word.split()[0]) == 6
    assert (seen.stream.updates, seen.status, seen.left) == (5, -15, [])


def test_who_ignores_sigterm_too_is_killed_and_the_results_are_there(tmp_path):
    seen = ridden(tmp_path, nasty("deaf"), grace_s=SHORT_S)
    assert (seen.stream.updates, seen.status, seen.left) == (5, -9, [])


def test_training_in_a_thread_ends_with_the_thread_and_main_goes_on(tmp_path):
    seen = ridden(tmp_path, nasty("in_thread"))
    assert (seen.stream.updates, seen.out, seen.err) == (5, "main goes on 1\n", "")


def test_a_pool_whose_worker_was_stopped_hangs_and_is_ended(tmp_path):
    seen = ridden(tmp_path, nasty("in_pool"), grace_s=SHORT_S)
    assert seen.stream.updates == 5
    assert seen.left == []


@pytest.mark.parametrize(("name", "word"), [("spawned", "parent goes on\n"), ("hogwild", "tested\n")])
def test_each_spawned_process_stops_at_its_own_update_and_the_parent_goes_on(tmp_path, name, word):
    seen = ridden(tmp_path, nasty(name))
    assert [process.updates for process in seen.stream.processes if process.updates] == [5, 5]
    assert (seen.out, seen.status, seen.left) == (word, 0, [])


# With a budget in seconds both must have met within them, also where the machine is busy: that takes its time.
@pytest.mark.parametrize(
    "wishes", [{"updates": 4}, pytest.param({"updates": None, "seconds": 15.0}, marks=pytest.mark.slow)]
)
def test_all_ranks_stop_at_the_same_update(tmp_path, wishes):
    seen = ridden(tmp_path, nasty("ranks"), **wishes)
    counts = [process.stopped.updates for process in seen.stream.processes if process.updates]
    assert len(counts) == 2
    assert len(set(counts)) == 1
    assert seen.left == []


@pytest.mark.parametrize("option", ["-I", "-S"])
def test_an_interpreter_that_ignores_its_environment_is_boarded_all_the_same(tmp_path, monkeypatch, option):
    inner = tmp_path / "inner.py"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    paths = [str(NASTY / "stand_in"), str(NASTY), packages]
    inner.write_text(f"import sys\nsys.path += {paths}\n{(NASTY / 'plain.py').read_text()}")
    seen = ridden(tmp_path, option, str(inner), "3", updates=None)
    assert f"argv ['{inner}', '3'] main __main__" in seen.out
    assert seen.stream.training.hello.argv[-1] == "3"


def test_a_module_is_started_as_one_under_dash_s_too(tmp_path):
    (tmp_path / "work").mkdir()
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (tmp_path / "work" / "inner.py").write_text(
        f"import sys\nsys.path.append({packages!r})\nimport torch\nprint(__name__, sys.argv[1:])\n"
    )
    with launch(script("-S", "-m", "inner", "3", cwd=tmp_path / "work"), folder=tmp_path / "told") as launched:
        Following(launched, grace_s=GRACE_S).to_the_end()
        assert (launched.folder / "stdout").read_text() == "__main__ ['3']\n"
        assert launched.stream().training is not None


def test_a_python_that_the_script_starts_is_boarded_by_inheritance(tmp_path):
    seen = ridden(tmp_path, nasty("other_python"), nasty("plain"))
    assert (seen.stream.updates, seen.status) == (5, 0)


def test_an_isolated_python_that_the_script_starts_is_noticed_while_it_runs(tmp_path):
    inner = tmp_path / "inner.py"
    inner.write_text(f"import sys\nsys.path.append({str(NASTY)!r})\n{(NASTY / 'plain.py').read_text()}")
    with pytest.raises(TargetError, match="could not attach to `nasty`") as caught:
        ridden(tmp_path, nasty("other_python"), "-I", str(inner), "1000000000")
    assert f"-I {inner}" in str(caught.value)
    assert "ignores PYTHONPATH" in str(caught.value)


def test_a_script_without_torch_is_told_from_one_that_was_watched(tmp_path):
    with pytest.raises(TargetError, match="could not attach") as caught:
        ridden(tmp_path, nasty("no_torch"))
    assert "came to its end" in caught.value.because


def test_a_script_that_does_not_get_to_torch_in_time_is_given_up(tmp_path):
    inner = tmp_path / "inner.py"
    inner.write_text("import time\ntime.sleep(300)\n")
    with pytest.raises(TargetError, match="could not attach") as caught:
        ridden(tmp_path, str(inner), patience_s=0.5)
    assert "within 0.5 s" in caught.value.because


def test_a_loop_without_any_optimizer_is_stopped_by_time(tmp_path):
    seen = ridden(tmp_path, nasty("functional"), seconds=1.0)
    assert (seen.stream.training.stopped.reason, seen.status, seen.err) == ("seconds", 0, "")


def test_a_step_that_takes_for_ever_is_stopped_inside_its_closure(tmp_path):
    seen = ridden(tmp_path, nasty("closure"), seconds=1.0)
    assert seen.stream.training.stopped.reason == "seconds"
    assert (seen.out, seen.status) == ("tidied up\n", 0)


def test_a_script_that_fails_by_itself_is_named_with_file_and_line(tmp_path):
    with pytest.raises(TargetError, match="failed after 3 updates") as caught:
        ridden(tmp_path, nasty("fails"))
    assert "`ValueError: the loss is gone`" in caught.value.because
    line = 1 + (NASTY / "fails.py").read_text().splitlines().index('    raise ValueError("the loss is gone")')
    assert f"({nasty('fails')}:{line})" in caught.value.because


def test_a_script_that_prints_without_end_is_not_held_up(tmp_path):
    seen = ridden(tmp_path, nasty("chatty"), updates=200)
    assert (seen.stream.updates, len(seen.out) > 10_000_000) == (200, True)


def test_nobody_is_left_of_what_the_script_started_in_a_session_of_its_own(tmp_path):
    seen = ridden(tmp_path, nasty("leaves_orphans"))
    assert seen.left == []


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_loader_workers_say_nothing(tmp_path, way):
    seen = ridden(tmp_path, nasty("with_workers"), way)
    assert len([one for one in seen.stream.processes if one.hello or one.tick]) == 1
    assert (seen.stream.updates, seen.err) == (5, "")


def test_a_forked_process_that_trains_has_a_story_and_a_budget_of_its_own(tmp_path):
    seen = ridden(tmp_path, nasty("forks"), updates=8)
    assert sorted(process.updates for process in seen.stream.processes) == [6, 8]


def test_what_a_script_pickles_stays_in_its_main(tmp_path):
    assert ridden(tmp_path, nasty("pickles")).out == "__main__ True\n"


def test_a_script_dies_with_the_lab(tmp_path):
    lab = tmp_path / "lab.py"
    lab.write_text(
        "import sys\nfrom pathlib import Path\nfrom netdyno.scripts.launch import launch\n"
        "from netdyno.targets.script import Script\n"
        f"script = Script(argv=(sys.executable, {nasty('plain')!r}), cwd=Path({str(tmp_path)!r}), name='x', file=None, kind='file')\n"
        f"launched = launch(script, folder=Path({str(tmp_path / 'told')!r}))\n"
        "import time\nwhile not launched.stream().updates: time.sleep(0.05)\n"
        "print(launched.process.pid, flush=True)\ntime.sleep(300)\n"
    )
    started = subprocess.Popen([sys.executable, str(lab)], stdout=subprocess.PIPE, text=True)
    process = int(started.stdout.readline())
    started.kill()
    started.communicate()
    for _ in range(2000):
        with contextlib.suppress(FileNotFoundError, IndexError):
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        break
    else:
        pytest.fail("the script outlived the lab")
