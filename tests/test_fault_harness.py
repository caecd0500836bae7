"""The fault bench's harness: what it examines, that it goes on where it was, and that its page tells misses and alarms."""

import json
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benches are no part of the installed package

from benchmarks import fault_bench, fault_oracle, fault_page, fault_rivals, rival_rules  # noqa: E402
from benchmarks.fault_bench import Answer, Bench, Entry, Job  # noqa: E402
from benchmarks.fault_score import Truth, worse_by_ranks  # noqa: E402
from benchmarks.faults import _base, compound, controls, unknown  # noqa: E402

PROGRAMS = (*controls.CONTROLS, *unknown.UNKNOWN)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_a_control_is_a_whole_script_that_does_not_know_the_lab(program):
    compile(program.text, program.script, "exec")
    assert "netdyno" not in program.text
    assert 'os.environ.get("SEED", "0")' in program.text
    assert f'"{program.metric}"' in program.text
    assert program.tempts


def test_there_are_36_controls_and_five_programs_without_a_cause():
    assert [each.id for each in controls.CONTROLS] == [f"H{n:02}" for n in range(1, 37)]
    assert [each.id for each in unknown.UNKNOWN] == [f"U{n:02}" for n in range(1, 6)]
    assert len({each.text for each in PROGRAMS}) == 41


def test_a_control_is_healthy_only_within_its_bound():
    low, high = controls.CONTROLS[5], controls.CONTROLS[0]
    assert [low.reached(low.bound + more) for more in (0.0, 0.01, float("nan"))] == [True, False, False]
    assert [high.reached(high.bound - less) for less in (0.0, 0.01, float("nan"))] == [True, False, False]


@pytest.mark.parametrize("fault", compound.FAULTS, ids=lambda fault: fault.id)
def test_a_compound_has_the_accepted_rules_of_both_parts(fault):
    known = compound.single_faults()
    first, second = (known[part] for part in compound.PARTS[fault.id])
    assert fault_bench.causes_of(fault) == (frozenset(first.accept), frozenset(second.accept))
    for host in fault.hosts:
        text = _base.source(fault, host)
        alone = [_base.source(part, host) for part in (first, second) if host in part.hosts]
        assert text not in (*alone, _base.fixed_source(host))


def test_programs_of_equal_text_are_one_job():
    bench = fault_bench.assembled(["H01", "U01"])
    assert [entry.role for entry in bench.entries] == ["control", "unknown"]
    assert len(bench.jobs) == 2
    assert fault_bench.job_of("a").key != fault_bench.job_of("a", {"X": "1"}).key


def test_every_faulty_program_differs_from_its_host_and_has_a_truth():
    bench = fault_bench.assembled(None, hosts="all", severity="all")
    fixed = {entry.host: entry.key for entry in bench.entries if entry.role == "fixed"}
    faulty = [entry for entry in bench.entries if entry.role == "faulty"]
    assert faulty
    assert all(entry.key != fixed[entry.host] for entry in faulty)
    assert all(entry.truth is not None and entry.truth.causes for entry in faulty)


def test_what_the_doctor_prints_is_read_in_its_order():
    text = json.dumps({"findings": [{"id": "b", "state": "found", "proof": "proven"}, {"id": "c", "state": "suspected", "proof": None}],
                       "outcomes": [{"rule": "b", "state": "found"}, {"rule": "a", "state": "clear"}]})  # fmt: skip
    found = fault_bench.outcomes_in(text)
    assert [(one["rule"], one["state"]) for one in found] == [("b", "found"), ("c", "suspected"), ("a", "clear")]
    assert fault_bench.proofs_in(found) == {"b": "proven"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"outcomes": []}', "Traceback"])
def test_an_answer_in_another_form_is_none_rather_than_silence(text):
    assert fault_bench.outcomes_in(text) is None


def test_the_bench_goes_on_where_it_was_cut_short(tmp_path):
    jobs = {key: Job(key, key) for key in ("a", "b", "c")}
    bench = Bench(tuple(Entry("control", key, "", key=key) for key in jobs), jobs)
    fault_bench.keep(tmp_path / "a.json", {"said": "a"})
    (tmp_path / "b.json").write_text('{"said": ')
    asked = []

    def work(job):
        asked.append(job.key)
        return {"said": job.key}

    for _ in range(2):
        found = fault_bench.over_all(bench, work, tmp_path, jobs=1, again=False, words=str)
        assert found == {key: {"said": key} for key in jobs}
    assert asked == ["b", "c"]


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path):
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    program = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    ended = fault_bench.run([sys.executable, "-c", program], folder=tmp_path, limit_s=1.0)
    assert ended.status is None
    time.sleep(3.5)
    assert not mark.exists()


def test_the_result_line_is_read_and_its_lack_is_no_number():
    assert fault_oracle.result_in('result: {"val_loss": 0.25}\n', "val_loss") == 0.25
    for text in ("", "result: {}", 'result: {"val_loss": null}'):
        assert fault_oracle.result_in(text, "val_loss") != fault_oracle.result_in(text, "val_loss")


TOY = """
import json, os, random
random.seed(int(os.environ["SEED"]))
assert not os.path.exists("left.txt")
open("left.txt", "w").close()
print("result: " + json.dumps({"val_loss": RESULT + random.random()}))
"""


def test_the_oracle_tells_harm_from_none_and_remembers_hosts(tmp_path):
    well, sick, broken = (fault_bench.job_of(TOY.replace("RESULT", text)) for text in ("0", "5", "1 / 0"))
    runs = [[fault_oracle.metric(job, seed, "val_loss", tmp_path) for seed in range(5)] for job in (well, sick, broken)]
    worse = [worse_by_ranks(each, runs[0], better="lower") for each in runs]
    assert worse[0] > fault_oracle.LEVEL
    assert worse[1] < fault_oracle.LEVEL
    assert worse[2] < fault_oracle.LEVEL
    assert len(list((tmp_path / "plain-runs").iterdir())) == 15


def toy_bench():
    truth = Truth((frozenset({"softmax-before-loss"}),), lines=(4,), located=True)
    entries = (
        Entry("faulty", "O21", "digits_mlp", "clear", "a", truth),
        Entry("faulty", "O22", "digits_mlp", "clear", "b", truth),
        Entry("control", "H01", "healthy/tuned_mlp", "", "c"),
        Entry("fixed", "host", "digits_mlp", "", "d"),
        Entry("unknown", "U01", "unlearnable/coin_in_the_label", "", "e"),
    )
    return Bench(entries, {key: Job(key, key) for key in "abcde"})


def said(rule, stage="loss", line=None):
    finding = {
        "layer": "optimisation",
        "stage": stage,
        "where": {"file": "train.py", "line": line},
        "saves": {"high": 0.0},
    }
    return [{"rule": rule, "state": "found", "finding": finding}] if rule else []


def answer(key, rule, **more):
    return Answer(key=key, status="answered", seconds=10.0, outcomes=said(rule, **more), updates=100)


def toy_answers(second="", control="dead-units"):
    return {
        "a": answer("a", "softmax-before-loss", line=4), "b": answer("b", second), "c": answer("c", control, stage="dynamics"),
        "d": answer("d", ""), "e": answer("e", "label-noise"),
    }  # fmt: skip


def test_the_page_tells_misses_alarms_and_causes_made_up(tmp_path):
    page = fault_page.page(toy_bench(), toy_answers(), tmp_path, command="bench")
    assert "| **all single faults** | 2 | 1/2 = 50.0%" in page
    assert "| controls | 1 | 1/1 = 100.0%" in page
    assert "| dead-units (dynamics) | 1 | H01 |" in page
    assert "Nothing is said of (1): O22." in page
    assert "Of 1 programs with nothing to put right, 1 were given a cause." in page


def test_a_better_doctor_has_a_better_page(tmp_path):
    page = fault_page.page(toy_bench(), toy_answers("softmax-before-loss", ""), tmp_path, command="bench")
    assert "| **all single faults** | 2 | 2/2 = 100.0%" in page
    assert "| controls | 1 | 0/1 = 0.0%" in page
    assert "Nothing is said of" not in page


def test_the_table_on_the_terminal_agrees_with_the_page(tmp_path):
    bench, answers = toy_bench(), toy_answers()
    page = fault_page.page(bench, answers, tmp_path, command="bench")
    assert all(line in page for line in fault_page.short(bench, answers).splitlines())


WELL = {
    "losses": [2.0 * 0.9**n for n in range(60)], "lr": [0.005], "dropout": [0.2], "units": [], "classes": [50, 50], "images": 100,
    "inputs": {"low": -1.0, "high": 1.0, "finite": True}, "steps": 60, "broke": "",
    "rounds": [{"step": 20 * n, "train_loss": 1.0 / n, "val_loss": 1.05 / n, "train_acc": 0.6 + 0.05 * n, "val_acc": 0.58 + 0.05 * n}
               for n in range(1, 6)],
    "looks": [{"step": n, "tensors": [{"name": "w", "dims": 2, "norm": 1.0, "mean": 0.01, "grad_zero": 0.1, "grad_finite": True,
                                       "weight_finite": True, "zero": False, "unchanged": False, "ratio": 1e-3}]} for n in range(5)],
}  # fmt: skip
SICK = {
    "exploding tensor": {"losses": [1.0, float("nan")]},
    "loss not decreasing": {"losses": [1.0] * 40},
    "overfit": {"rounds": [{"step": 1, "train_loss": 0.1, "val_loss": 1.0, "train_acc": 0.9, "val_acc": 0.5}]},
    "class imbalance": {"classes": [10, 900]},
    "dead relu": {"units": [{"kind": "ReLU", "dead": 0.9, "low": 0.95}]},
    "input range": {"inputs": {"low": 0.0, "high": 255.0}},
    "learning rate high": {"lr": [0.5]},
    "negative loss": {"losses": [-1.0]},
    "dead node": {"units": [{"kind": "ReLU", "dead": 0.9, "low": 0.95}]},
}


def test_the_published_rules_leave_an_easy_run_alone():
    assert not any(rival_rules.alarms(WELL).values())


@pytest.mark.parametrize("name", SICK)
def test_a_published_rule_fires_on_what_it_is_for(name):
    assert any(name in alarms for alarms in rival_rules.alarms({**WELL, **SICK[name]}).values())


def test_a_rival_without_an_answer_is_not_counted_as_quiet():
    faulty, well = (
        [Entry("faulty", "O19", "", key="a"), Entry("faulty", "O01", "", key="b")],
        [Entry("fixed", "host", "", key="c")],
    )
    said = {"a": {"alarms": {"SMD": ["dead relu"]}}, "b": {"alarms": {"SMD": None}}, "c": {"alarms": {"SMD": []}}}
    row = fault_rivals.row("SMD", faulty, well, said)
    assert row.startswith("| SMD (1 without an answer) | 1 | 1/1 = 100.0%")
    assert row.endswith("| 1 | 0/1 = 0.0% (0%–79%) |")


def test_the_recorder_sees_what_a_script_does(tmp_path):
    recorder = str(ROOT / "benchmarks" / "rival_recorder.py")
    script = tmp_path / "train.py"
    script.write_text(
        (ROOT / "benchmarks" / "plain" / "dead_units.py").read_text().replace("STEPS = 225", "STEPS = 40")
    )
    ended = fault_bench.run([sys.executable, recorder, str(tmp_path / "out"), "train.py"], folder=tmp_path)
    assert ended.status == 0, ended.err
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["broke"] == ""
    assert (record["steps"], len(record["losses"]), record["rounds"]) == (40, 40, [])
    assert sum(record["classes"]) == 40 * 64
    assert {unit["dead"] for unit in record["units"]} == {1.0}
    assert "dead relu" in rival_rules.alarms(record)["SageMaker Debugger's defaults"]


def test_the_recorder_tells_evaluation_from_training(tmp_path):
    (tmp_path / "train.py").write_text(EVALUATING)
    recorder = str(ROOT / "benchmarks" / "rival_recorder.py")
    fault_bench.run([sys.executable, recorder, str(tmp_path / "out"), "train.py"], folder=tmp_path)
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert [each["step"] for each in record["rounds"]] == [5, 10]
    assert all(0 <= each["val_acc"] <= 1 and each["train_loss"] > 0 for each in record["rounds"])


EVALUATING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
x, y = torch.randn(8, 3), torch.randint(0, 2, (8,))
for epoch in range(2):
    for _ in range(5):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for _ in range(3):
            criterion(model(x), y)
"""


def test_every_alarm_of_the_published_rules_names_some_fault_of_the_list():
    listed = set(fault_page.every_listed())
    assert all(faults and set(faults) <= listed for faults in rival_rules.NAMES.values())
    assert all(set(faults) <= listed for faults in fault_rivals.WORDS.values())
