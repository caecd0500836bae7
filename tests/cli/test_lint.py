"""The command that reads sources: what it prints, writes and answers."""

import json

import pytest

from netdyno.cli._app import main

WRONG = """\
import torch
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    optimizer.step
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WRONG)
    return tmp_path


@pytest.fixture
def told(capsys):
    def run(*words):
        status = main(["lint", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_a_wrong_form_is_told_with_its_place_and_remedy_and_exit_status_1(folder, told):
    status, out, err = told()
    assert status == 1
    assert out.startswith("train.py:5: ")
    assert "[uncalled-method]" in out
    assert "fix: add the brackets" in out
    assert "1 found" in err


def test_a_healthy_folder_is_silent(folder, told):
    (folder / "train.py").write_text("x = 1\n")
    assert told(".")[:2] == (0, "")


def test_environments_and_hidden_folders_are_nobodys_own(folder, told):
    for name in (".hidden", "venv", "mine"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(WRONG)
    (folder / "mine" / "pyvenv.cfg").write_text("")
    (folder / "train.py").write_text("x = 1\n")
    assert told(".")[:2] == (0, "")


def test_fix_writes_the_file_and_shows_what_it_wrote(folder, told):
    status, out, _ = told("--fix")
    assert status == 0
    assert "+    optimizer.step()" in out
    assert (folder / "train.py").read_text() == WRONG.replace("optimizer.step", "optimizer.step()")


def test_diff_writes_nothing(folder, told):
    status, out, _ = told("--diff")
    assert status == 1
    assert "+    optimizer.step()" in out
    assert (folder / "train.py").read_text() == WRONG


def test_ids_choose_and_unknown_ones_are_put_right(folder, told):
    assert told("--ignore", "uncalled-method")[0] == 0
    assert told("--select", "late-nan-check")[0] == 0
    assert told("--select", "uncalled_method")[0] == 1
    status, _, err = told("--select", "uncaled-method")
    assert status == 2
    assert "did you mean `uncalled-method`?" in err


def test_suspicions_count_only_when_that_is_asked_for(folder, told):
    (folder / "train.py").write_text("import torch\ntorch.jit.script(model)\n")
    assert told()[0] == 0
    assert told("--strict")[0] == 1


def test_json_and_sarif_say_the_same(folder, told):
    status, out, _ = told("--json", "--sarif", "out.sarif")
    assert status == 1
    (row,) = json.loads(out)["found"]
    assert (row["rule"], row["line"], row["fixable"]) == ("uncalled-method", 5, True)
    (result,) = json.loads((folder / "out.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "uncalled-method"


def test_a_file_that_cannot_be_parsed_is_said_and_is_no_finding(folder, told):
    (folder / "train.py").write_text("def (:\n")
    status, out, err = told()
    assert (status, out) == (0, "")
    assert "train.py could not be read" in err


def test_what_is_not_there_is_three_lines(folder, told):
    status, _, err = told("nowhere.py")
    assert status == 2
    assert "error: cannot read `nowhere.py`" in err


def test_lines_of_other_systems_stay(folder, told):
    (folder / "train.py").write_bytes(WRONG.replace("\n", "\r\n").encode())
    assert told("--fix")[0] == 0
    assert (folder / "train.py").read_bytes() == WRONG.replace("optimizer.step", "optimizer.step()").replace(
        "\n", "\r\n"
    ).encode()
