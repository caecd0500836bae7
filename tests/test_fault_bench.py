"""The fault bench: every fault gets into its hosts, and what is said of its lines is so."""

import ast
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benches are no part of the installed package

from benchmarks import fault_oracle  # noqa: E402
from benchmarks.fault_bench import Entry  # noqa: E402
from benchmarks.fault_score import worse_by_ranks  # noqa: E402
from benchmarks.faults import _base  # noqa: E402
from benchmarks.faults._base import Edit, Fault, FaultError  # noqa: E402

from netdyno.records.diagnosis import LAYERS  # noqa: E402

HOST = "digits_mlp"
OLD = "            loss.backward()\n"


def toy(*edits, **more):
    return Fault(id="T01", kind="toy", layer="optimisation", edits={HOST: edits}, **more)


def line_of(text, piece):
    return next(n for n, line in enumerate(text.splitlines(), 1) if piece in line)


@pytest.mark.parametrize("host", _base.hosts())
def test_a_host_compiles_and_does_not_know_the_lab(host):
    text = _base.fixed_source(host)
    compile(text, host, "exec")
    assert "netdyno" not in text
    assert 'os.environ.get("SEED", "0")' in text
    assert "result:" in text


@pytest.mark.parametrize("fault", _base.all_faults(), ids=lambda fault: fault.id)
def test_a_fault_gets_into_all_its_hosts(fault):
    assert fault.edits
    assert fault.layer in (*LAYERS, "none")
    assert fault.better in {"lower", "higher"}
    assert set(fault.twin) <= set(fault.edits)
    for host in fault.hosts:
        compile(_base.twin_source(fault, host), f"{fault.id} twin {host}", "exec")
        for severity in fault.severities:
            text = _base.source(fault, host, severity)
            compile(text, f"{fault.id} {host} {severity}", "exec")
            assert fault.kind == "none" or text != _base.fixed_source(host)


def test_a_replaced_line_is_the_changed_line():
    fault = toy(Edit("LEARNING_RATE = 2e-3", "LEARNING_RATE = <<LR>>"), severities={"clear": {"LR": "9"}})
    text = _base.source(fault, HOST)
    assert _base.changed_lines(fault, HOST) == (line_of(text, "LEARNING_RATE = 9"),)


def test_an_added_line_is_the_changed_line():
    fault = toy(Edit(OLD, OLD + "            loss = loss.detach()\n"))
    assert _base.changed_lines(fault, HOST) == (line_of(_base.source(fault, HOST), "loss.detach()"),)


def test_of_a_line_taken_out_its_neighbours_are_told():
    text = _base.fixed_source(HOST)
    gone = line_of(text, "optimizer.zero_grad()")
    fault = toy(Edit("            optimizer.zero_grad()\n", ""))
    assert _base.changed_lines(fault, HOST) == (gone - 1, gone)


def test_the_last_line_taken_out_has_one_neighbour():
    assert _base.lines_changed("a\nb\n", "a\n") == (1,)


@pytest.mark.parametrize(("old", "times"), [("nowhere to be found", 0), ("import", "1")])
def test_a_piece_that_does_not_occur_once_is_an_error(old, times):
    with pytest.raises(FaultError, match=rf"T01 in digits_mlp: '{old}' occurs {times}\d* times"):
        _base.source(toy(Edit(old, "")), HOST)


def test_a_placeholder_without_a_value_is_an_error():
    with pytest.raises(FaultError, match="no value for a placeholder"):
        _base.source(toy(Edit("2e-3", "<<LR>>")), HOST)


def test_a_severity_that_the_fault_lacks_is_an_error():
    with pytest.raises(FaultError, match="no severity 'fatal'"):
        _base.source(toy(Edit("2e-3", "1")), HOST, "fatal")


def test_a_host_that_the_fault_lacks_is_an_error():
    with pytest.raises(FaultError, match="no edits for 'digits_cnn'"):
        _base.source(toy(Edit("2e-3", "1")), "digits_cnn")


def test_a_fault_is_written_with_its_truth(tmp_path):
    fault = toy(Edit("2e-3", "2.0"), accept=("some-rule",), fix="lower the learning rate")
    _base.write(fault, HOST, "clear", tmp_path / "case")
    told = json.loads((tmp_path / "case" / "truth.json").read_text())
    assert sorted(path.name for path in (tmp_path / "case").iterdir()) == [
        "faulty.py", "fixed.py", "truth.json", "twin.py",
    ]  # fmt: skip
    assert told["lines"] == list(_base.changed_lines(fault, HOST))
    assert told["accept"] == ["some-rule"]
    ast.parse((tmp_path / "case" / "faulty.py").read_text())
    assert (tmp_path / "case" / "twin.py").read_text() == _base.fixed_source(HOST)


def test_truth_holds_lines_one_step_from_the_change_and_none_where_the_cause_has_no_line():
    fault = next(each for each in _base.all_faults() if each.id == "O02")
    text = _base.source(fault, HOST).splitlines()
    near = _base.truth(fault, HOST)["near"]
    assert any("lr=LEARNING_RATE" in text[line - 1] for line in near)
    placeless = next(each for each in _base.all_faults() if not each.located)
    assert _base.truth(placeless, placeless.hosts[0])["near"] == []


def test_what_a_fault_accepts_is_the_name_of_a_rule():
    known = {
        path.stem.replace("_", "-")
        for room in ("rules", "lint")
        for path in (ROOT / "src/netdyno" / room).glob("[a-z]*.py")
    }
    named = {(fault.id, name) for fault in _base.all_faults() for name in fault.accept}
    assert {(fault, name) for fault, name in named if name not in known} == set()


@pytest.mark.parametrize("fault", _base.all_faults(), ids=lambda fault: fault.id)
def test_what_the_oracle_compares_can_be_run_and_prints_the_metric(fault):
    for host in fault.hosts:
        for severity in fault.severities:
            for text in (_base.source(fault, host, severity), _base.mended_source(fault, host, severity)):
                measured = _base.measured_source(fault, host, text)
                compile(measured, f"{fault.id} {host} {severity}", "exec")
                # Errors that end the script print nothing: whatever the metric, it is the worst.
                assert f'"{fault.metric}"' in measured or fault.metric in ("peak_mb", "train_s")


def test_a_program_put_right_is_the_host_unless_the_fault_names_another():
    assert _base.mended_source(toy(Edit("2e-3", "1")), HOST) == _base.fixed_source(HOST)
    fault = toy(Edit("2e-3", "1"), mended={HOST: (Edit("2e-3", "2e-4"),)})
    assert _base.mended_source(fault, HOST) != _base.fixed_source(HOST)


def test_a_number_that_a_fault_flatters_does_harm_by_being_better():
    plain = toy(Edit("2e-3", "1"), metric="val_acc", better="higher")
    flattering = toy(Edit("2e-3", "1"), metric="val_acc", better="higher", flatters=True)
    leaked, honest = [0.99, 0.98, 0.97, 0.99, 0.98], [0.9, 0.91, 0.92, 0.9, 0.91]
    assert worse_by_ranks(leaked, honest, better=fault_oracle.worst_way(plain)) == 1.0
    assert worse_by_ranks(leaked, honest, better=fault_oracle.worst_way(flattering)) < fault_oracle.LEVEL


def test_the_oracle_measures_both_programs_in_the_same_way():
    fault = next(each for each in _base.all_faults() if each.id == "G15")
    faulty, mended = fault_oracle.sides(fault, HOST, "clear")
    assert "val_interval" in faulty.text
    assert "val_interval" in mended.text
    assert "test_size=20" not in mended.text


@pytest.mark.parametrize("id_", ["D12", "D13", "D14", "D15", "D16", "G11"])
def test_leaks_and_flattering_evaluations_are_judged_by_what_they_promise(id_):
    fault = next(each for each in _base.all_faults() if each.id == id_)
    assert fault.flatters


def test_an_answer_to_another_question_is_asked_again():
    entry = Entry("faulty", "D12", HOST, "clear", key="text")
    asked = fault_oracle.question(entry)
    assert not fault_oracle.answers({"key": "text", "metric": "val_acc", "p": 1.0}, asked)
    assert fault_oracle.answers({**asked, "p": 0.004}, asked)


def test_an_answer_about_a_fault_with_the_hosts_own_metric_stays_good():
    entry = Entry("faulty", "O02", HOST, "clear", key="text")
    metric = next(each.metric for each in _base.all_faults() if each.id == "O02")
    assert fault_oracle.answers({"key": "text", "metric": metric, "p": 0.004}, fault_oracle.question(entry))
