"""The command line: what each command answers, where, and how it ends."""

import json
import subprocess
import sys

import msgspec
import pytest

from netdyno import bench, plugins
from netdyno.cli import _app
from netdyno.cli._app import main
from netdyno.errors import TargetError
from netdyno.records import codec
from netdyno.records.measured import Interval
from netdyno.records.selftest import KnownAnswer, SelfTest
from netdyno.store import Store
from reports.specimens import golden, interrupted

COMMANDS = {
    "baseline",
    "compare",
    "doctor",
    "export",
    "init",
    "journals",
    "judge",
    "machine",
    "replay",
    "report",
    "run",
    "runs",
    "selftest",
    "show",
    "tune",
    "ui",
    "watch",
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with one finished run, in the current folder."""
    monkeypatch.chdir(tmp_path)
    shelf = Store(".netdyno")
    shelf.save(golden())
    return shelf


@pytest.fixture
def told(capsys):
    """Runs a command; answers with status, stdout and stderr."""

    def run(*words):
        status = main(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


def three_lines(err):
    lines = err.strip().splitlines()
    return [line.split()[0] for line in lines[-3:]] == ["error:", "because", "hint:"]


def without_torch(*words, cwd):
    code = (
        "import sys; from netdyno.cli._app import main; status = main(sys.argv[1:]);"
        "assert 'torch' not in sys.modules, 'torch was imported'; sys.exit(status)"
    )
    return subprocess.run([sys.executable, "-c", code, *words], cwd=cwd, capture_output=True, text=True, check=False)


# ---------------------------------------------------------------- all commands


def test_every_file_is_a_command():
    assert {name for name, _ in plugins.modules("cli")} >= COMMANDS


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(told, name):
    status, out, _ = told(name, "--help")
    assert status == 0
    assert f"netdyno {name} " in out
    assert len(out.splitlines()) > 5


def test_help_lists_all_commands(told):
    status, out, _ = told("--help")
    assert status == 0
    assert all(f"  {name} " in out for name in COMMANDS)


def test_alone_it_shows_the_help_and_is_content(told):
    status, out, _ = told()
    assert status == 0
    assert "commands:" in out


def test_it_says_its_version(told):
    from netdyno import __version__

    assert told("--version") == (0, f"netdyno {__version__}\n", "")


def test_a_broken_command_is_left_out_aloud(monkeypatch, told):
    real = dict(plugins.modules("cli"))
    listed = [*real.items(), ("lost", plugins.Broken("lost", "ImportError: gone"))]
    monkeypatch.setattr(_app.plugins, "modules", lambda room: iter(listed))
    status, _, err = told("--help")
    assert status == 0
    assert "lost" in err
    assert "gone" in err


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["tune", "--help"],
        ["show"],
        ["runs"],
        ["runs", "--json"],
        ["doctor", "last"],
        ["judge"],
        ["compare", "last"],
        ["report", "--markdown"],
        ["report", "--html"],
        ["init"],
    ],
)
def test_what_needs_no_device_does_not_import_torch(store, tmp_path, words):
    done = without_torch(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- endings


def test_an_unknown_option_is_three_lines_and_status_2(told):
    status, out, err = told("tune", "--bugdet", "3m")
    assert (status, out) == (2, "")
    assert three_lines(err)
    assert "--budget" in err


def test_an_unknown_command_is_three_lines_and_status_2(told):
    status, _, err = told("tuen")
    assert status == 2
    assert three_lines(err)


def test_what_the_user_can_put_right_is_three_lines_and_status_2(told, tmp_path):
    status, out, err = told("show", "nobody", "--store", str(tmp_path))
    assert (status, out) == (2, "")
    assert three_lines(err)


def test_an_error_of_a_target_is_three_lines(store, told, monkeypatch):
    def refuse(*_, **__):
        raise TargetError("cannot find `work.py`", because="it is not there", hint="write it")

    monkeypatch.setattr(bench, "tune", refuse)
    status, _, err = told("tune", "work.py:Digits")
    assert status == 2
    assert three_lines(err)


def test_a_bug_of_ours_is_one_sentence_and_a_file_to_paste(store, told, monkeypatch, tmp_path):
    def stumble(reference, plan, *, store, **_):
        store.save(interrupted())
        raise RuntimeError("an impossible thing")

    monkeypatch.setattr(bench, "tune", stumble)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    status, out, err = told("tune", "work.py:Digits", "--progress", "none")
    assert (status, out) == (3, "")
    (sentence,) = err.strip().splitlines()
    (report,) = tmp_path.glob("netdyno-bug-*.txt")
    assert str(report) in sentence
    text = report.read_text()
    for part in ("an impossible thing", "Traceback", "torch: ", "netdyno tune work.py:Digits", interrupted().id):
        assert part in text


def test_an_interruption_names_the_record_so_far(store, told, monkeypatch):
    def interrupt(reference, plan, *, store, **_):
        store.save(interrupted())
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "tune", interrupt)
    status, out, err = told("tune", "work.py:Digits")
    assert (status, out) == (130, "")
    assert str(store.path(interrupted().id)) in err


def test_being_told_to_end_is_an_interruption(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from netdyno.cli import _app, _endings\n"
        "_app._ran = lambda words: (os.kill(os.getpid(), signal.SIGTERM), signal.pause())\n"
        "sys.exit(_app.main([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 130
    assert "interrupted" in done.stderr


def test_a_forked_child_that_is_told_to_end_is_not_an_interruption():
    code = (
        "import os, signal, sys, time\n"
        "from netdyno.cli import _endings\n"
        "with _endings.on_terminate():\n"
        "    ready, tell = os.pipe()\n"
        "    child = os.fork()\n"
        "    if not child: os.write(tell, b'x'); time.sleep(20); os._exit(5)\n"
        "    os.read(ready, 1)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert int(done.stdout) == 15
    assert done.stderr == ""


def test_a_reader_that_has_seen_enough_is_no_error(store, tmp_path):
    for number in range(50):
        store.save(msgspec.structs.replace(golden(), id=f"run-{number}"))
    done = subprocess.run(
        f"{sys.executable} -m netdyno runs --json | head -c 10",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""


# ---------------------------------------------------------------- stored runs


def test_the_store_may_be_named_before_or_after_the_command(store, told, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    folder = str(tmp_path / ".netdyno")
    assert told("runs", "--store", folder, "--json") == told("--store", folder, "runs", "--json")


def test_show_says_what_was_won(store, told):
    status, out, _ = told("show")
    assert status == 0
    assert golden().target.name in out


def test_show_as_json_is_the_record(store, told):
    _, out, _ = told("show", "--json")
    assert codec.decode(out.encode()) == golden()


def test_runs_lists_also_what_cannot_be_read(store, told):
    (store.shelf / "torn.json").write_text("{")
    _, out, _ = told("runs")
    assert golden().id in out
    assert "cannot be read" in " ".join(out.split())


def test_an_empty_store_lists_nothing_on_stdout_and_says_how_to_begin(told, tmp_path):
    status, out, err = told("runs", "--store", str(tmp_path / "new"))
    assert (status, out) == (0, "")
    assert "netdyno tune" in err


def test_doctor_runs_the_rules_again_over_stored_evidence(store, told):
    status, out, _ = told("doctor", "last", "--json")
    outcomes = json.loads(out)["outcomes"]
    assert status == 0
    assert {outcome["rule"] for outcome in outcomes} == {name for name, _ in plugins.modules("rules")}
    assert "found" in {outcome["state"] for outcome in outcomes}
    first = json.loads(out)["findings"][0]
    assert {"id", "says", "layer", "because", "fix", "confidence", "explains", "state", "proof"} <= set(first)


def test_doctor_answers_no_when_a_named_rule_finds_something(store, told):
    _, out, _ = told("doctor", "last", "--json")
    outcomes = json.loads(out)["outcomes"]
    found = next(outcome["rule"] for outcome in outcomes if outcome["state"] == "found")
    clear = next(outcome["rule"] for outcome in outcomes if outcome["state"] == "clear")
    assert told("doctor", "last", "--fail-on", found)[0] == 1
    assert told("doctor", "last", "--fail-on", "any")[0] == 1
    assert told("doctor", "last", "--fail-on", clear)[0] == 0
    assert told("doctor", "last", "--fail-on", "imput-bound")[0] == 2


def test_judge_under_a_stricter_policy_keeps_nothing(store, told):
    status, out, _ = told("judge", "--least-gain", "99%", "--json")
    decisions = {verdict["decision"] for verdict in json.loads(out)}
    assert status == 0
    assert "keep" not in decisions
    assert told("judge", "--least-gain", "99%", "--fail-on-change")[0] == 1


def test_judging_again_changes_nothing_on_disk(store, told):
    before = store.path(golden().id).read_bytes()
    told("judge", "--least-gain", "99%")
    assert store.path(golden().id).read_bytes() == before


def test_a_report_is_written_and_its_path_is_the_answer(store, told):
    status, out, _ = told("report", "--html")
    assert status == 0
    with open(out.strip()) as file:
        assert "<html" in file.read(2000)


def test_a_report_goes_where_it_is_told(store, told, tmp_path):
    status, out, _ = told("report", "--markdown", "-o", "mine.md")
    assert (status, out) == (0, "mine.md\n")
    assert (tmp_path / "mine.md").read_text().startswith("#")


def test_two_reports_at_once_are_refused(store, told):
    status, _, err = told("report", "--html", "--markdown")
    assert status == 2
    assert three_lines(err)


def test_init_writes_a_file_that_python_can_read_and_never_replaces_one_unasked(store, told, tmp_path):
    assert told("init", "mine.py")[:2] == (0, "mine.py\n")
    compile((tmp_path / "mine.py").read_text(), "mine.py", "exec")
    (tmp_path / "mine.py").write_text("precious")
    status, _, err = told("init", "mine.py")
    assert status == 2
    assert three_lines(err)
    assert (tmp_path / "mine.py").read_text() == "precious"
    assert told("init", "mine.py", "--force")[0] == 0


# ---------------------------------------------------------------- runs that measure


@pytest.fixture
def asked(monkeypatch):
    """What `bench` was asked for; it answers with the golden record."""
    seen = {}

    def answer(reference, plan, **more):
        seen.update(more, reference=reference, plan=plan)
        more["store"].save(golden())
        return golden()

    for name in ("tune", "baseline", "diagnose"):
        monkeypatch.setattr(bench, name, answer)
    return seen


def test_tune_makes_the_plan_from_its_flags(store, told, asked):
    told(
        *("tune", "work.py:Digits", "--budget", "1m30s", "--least-gain", "2%", "--goal", "memory"),
        *("--memory-budget", "1GiB", "--only", "threads,pin-memory", "--skip", "channels_last"),
        *("--allow", "same-bits", "--allow", "reordered", "--trial-seconds", "20s", "--spawns", "3", "--seed", "7"),
    )
    plan = asked["plan"]
    assert asked["reference"] == "work.py:Digits"
    assert (plan.budget_s, plan.least_gain, plan.goal, plan.memory_budget) == (90.0, 0.02, "memory", 2**30)
    assert (plan.only, plan.skip) == (("threads", "pin-memory"), ("channels-last",))
    assert (plan.allow, plan.trial_s, plan.spawns, plan.seed) == (("same-bits", "reordered"), 20.0, 3, 7)


def test_the_record_knows_the_command_without_the_path_of_the_program(store, told, asked, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/netdyno", "tune", "my work.py:Digits"])
    told("tune", "my work.py:Digits")
    assert asked["command"] == "netdyno tune 'my work.py:Digits'"


@pytest.mark.parametrize(
    ("flags", "price"),
    [
        ((), 0.05),
        (("--memory-budget", "1GiB"), 0.5),
        (("--time-price", "60%"), 0.6),
        (("--time-price", "10%", "--memory-budget", "1GiB"), 0.1),
    ],
)
def test_memory_may_cost_what_the_user_says_and_more_by_default_where_it_must_fit(store, told, asked, flags, price):
    told("tune", "work.py:Digits", "--goal", "memory", *flags)
    assert asked["plan"].time_price == price


def test_tune_without_flags_is_the_plan_without_arguments(store, told, asked):
    from netdyno.records.record import Plan

    told("tune", "work.py:Digits")
    assert asked["plan"] == Plan()


def test_the_numerics_choices_are_those_of_the_record():
    from typing import get_args

    from netdyno.cli._options import AnyNumerics
    from netdyno.records.trial import Numerics

    assert set(AnyNumerics) == set(get_args(Numerics))


def test_tune_ends_with_the_answer_on_stdout_and_the_paths_on_stderr(store, told, asked):
    status, out, err = told("tune", "work.py:Digits")
    assert status == 0
    assert golden().target.name in out
    report = store.artifacts / golden().id / "report.html"
    assert report.is_file()
    assert str(report) in err
    assert (store.artifacts / golden().id / "debug" / "reproduce.sh").is_file()


def test_tune_as_json_puts_nothing_but_the_record_on_stdout(store, told, asked):
    _, out, _ = told("tune", "work.py:Digits", "--json")
    assert codec.decode(out.encode()) == golden()


def test_tune_answers_no_when_asked_to_and_nothing_was_kept(store, told, monkeypatch):
    monkeypatch.setattr(bench, "tune", lambda *_, **__: msgspec.structs.replace(golden(), recipe=()))
    assert told("tune", "work.py:Digits")[0] == 0
    assert told("tune", "work.py:Digits", "--fail-on-no-gain")[0] == 1


def test_tune_goes_on_with_a_run_that_was_cut_short(store, told, asked):
    store.save(interrupted())
    store.release(interrupted().id)
    status, _, _ = told("tune", "--resume", interrupted().id)
    assert status == 0
    assert asked["resume"] == interrupted()
    assert asked["reference"] == interrupted().target.source


def test_a_run_is_not_resumed_on_another_target(store, told, asked):
    status, _, err = told("tune", "other.py:Model", "--resume", golden().id)
    assert status == 2
    assert golden().target.source in err


def test_tune_without_a_target_is_three_lines(store, told):
    status, _, err = told("tune")
    assert status == 2
    assert three_lines(err)


@pytest.mark.parametrize(
    "flag",
    [
        ["--budget", "3 parsecs"],
        ["--least-gain", "120%"],
        ["--memory-budget", "much"],
        ["--time-price", "all"],
        ["--skip", "pin-memry"],
    ],
)
def test_a_flag_that_makes_no_sense_is_three_lines(store, told, asked, flag):
    status, _, err = told("tune", "work.py:Digits", *flag)
    assert status == 2
    assert three_lines(err)


def test_baseline_and_doctor_measure_when_given_a_workload(store, told, asked):
    assert told("baseline", "work.py:Digits")[0] == 0
    assert asked["plan"].budget_s == 300.0
    status, out, _ = told("doctor", "work.py:Digits", "--json", "--budget", "1m")
    assert status == 0
    assert asked["plan"].budget_s == 60.0
    assert json.loads(out)


def replayed(*, holds):
    ends = Interval(middle=1.5, low=1.4, high=1.6)
    return bench.Replay(holds=holds, says="the claim …", claimed=ends, measured=ends, differences=("threads",))


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (False, 1)])
def test_replay_answers_whether_the_claim_holds(store, told, monkeypatch, holds, status):
    monkeypatch.setattr(bench, "replay", lambda record, **_: replayed(holds=holds))
    ended, out, err = told("replay", "last")
    assert (ended, out) == (status, "the claim …\n")
    assert "threads" in err
    assert json.loads(told("replay", "last", "--json")[1])["holds"] is holds


@pytest.mark.parametrize(("found_s", "status"), [(0.00201, 0), (0.004, 1)])
def test_selftest_answers_whether_the_instrument_can_be_believed(told, monkeypatch, found_s, status):
    answer = KnownAnswer(
        phase="forward", kind="blocked", injected_s=0.002, found_s=found_s, found_phase="forward", found_kind="blocked"
    )
    found = SelfTest(
        environment=golden().environment,
        answers=(answer,),
        noise=0.03,
        same=Interval(middle=0.0, low=-0.01, high=0.01, level=0.999),
        pairs=400,
        smallest_effect=0.01,
        own_cost_s=20e-6,
        step_s=0.012,
        waiting_share=0.02,
    )
    monkeypatch.setattr("netdyno.cli.selftest._tested", lambda *_: found)
    ended, out, _ = told("selftest")
    assert ended == status
    assert "forward" in out
    assert ("WRONG" in out) is bool(status)


def test_machine_measures_once_and_then_remembers(store, told, monkeypatch):
    import netdyno.measure.ceilings as room

    calls = []

    def measured(environment, **_):
        calls.append(environment.id)
        return msgspec.structs.replace(golden().ceilings, environment=environment.id)

    monkeypatch.setattr(room, "ceilings", measured)
    status, out, _ = told("machine", "--json")
    assert status == 0
    assert json.loads(out)["ceilings"]["environment"] == json.loads(out)["environment"]["id"]
    told("machine")
    assert len(calls) == 1
    told("machine", "--fresh")
    assert len(calls) == 2


def test_run_trains_and_says_how_long_it_took(store, told):
    status, out, _ = told("run", "garage:tiny", "--steps", "3", "--warmup", "1", "--json")
    ran = json.loads(out)
    assert status == 0
    assert (ran["steps"], ran["changes"]) == (3, [])
    assert ran["wall_s"] > 0


def test_run_begins_again_when_a_change_is_read_as_python_starts(store, told, monkeypatch):
    from netdyno.interventions import _base

    begun = []

    def begin(program, words, environment):
        begun.append((words[1:], environment["OMP_WAIT_POLICY"]))
        raise SystemExit(0)

    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(_base, "environment_of", lambda recipe: {"OMP_WAIT_POLICY": "passive"})
    monkeypatch.setattr("os.execve", begin)
    monkeypatch.setattr(sys, "argv", ["netdyno", "run", "garage:tiny", "--recipe", "last"])
    assert told("run", "garage:tiny", "--recipe", "last")[0] == 0
    assert begun == [(["-m", "netdyno", "run", "garage:tiny", "--recipe", "last"], "passive")]
