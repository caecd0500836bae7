"""The command that answers from the table of symptoms: what it says, and how soon."""

import json
import subprocess
import sys

import pytest

from netdyno.cli._app import main


@pytest.fixture
def told(capsys):
    def run(*words):
        status = main(["why", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_a_symptom_is_answered_with_its_check_command_and_remedy(told):
    status, out, _ = told("loss goes to NaN")
    assert status == 0
    assert out.startswith("loss is NaN\n")
    assert "Check:" in out
    assert "netdyno doctor train.py" in out


def test_words_need_no_quotes(told):
    assert told("loss", "goes", "to", "NaN")[1] == told("loss goes to NaN")[1]


def test_unsure_it_lists_the_nearest_and_says_so(told):
    status, out, err = told("memory")
    assert status == 0
    assert "not sure" in err
    assert "memory grows steadily" in out


def test_alone_it_lists_all_symptoms(told):
    status, out, _ = told()
    assert status == 0
    assert "loss is NaN" in out.splitlines()


@pytest.mark.parametrize("name", ["sequential-sampler", "uncalled_method", "pin-memory"])
def test_rules_lints_and_changes_explain_themselves(told, name):
    status, out, _ = told(name)
    assert status == 0
    assert out.startswith(name.replace("_", "-"))
    assert len(out.splitlines()) > 5


def test_json_holds_the_rows_and_whether_it_is_sure(told):
    _, out, _ = told("loss is NaN", "--json")
    answer = json.loads(out)
    assert answer["sure"]
    assert answer["matches"][0]["symptom"] == "loss is NaN"


def test_what_nobody_knows_is_three_lines(told):
    status, _, err = told("zebra crossing")
    assert status == 2
    assert "hint:" in err


def test_it_answers_without_torch():
    code = (
        "import sys; from netdyno.cli._app import main; main(['why', 'loss is nan']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
