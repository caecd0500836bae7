"""What the room promises of a set of sources: one outcome for each lint, places, and scripts inside of texts."""

from netdyno.lint import _base
from netdyno.lint._base import check, places

WRONG = "import torch\nmodel.eval\nmodel.train\n"


def outcome_of(name, sources):
    return next(each for each in check(sources) if each.rule == name)


def test_silence_is_an_outcome_too():
    outcomes = check({"train.py": "x = 1\n"})
    assert len(outcomes) == len(_base.lints())
    assert {each.state for each in outcomes} == {"clear"}


def test_the_first_place_is_told_and_the_others_are_counted():
    outcome = outcome_of("uncalled-method", {"a.py": WRONG, "b.py": WRONG})
    assert outcome.state == "found"
    assert (outcome.finding.where.file, outcome.finding.where.line) == ("a.py", 2)
    assert outcome.finding.because["places"] == 4
    assert "line 3, b.py:2, b.py:3" in outcome.finding.says


def test_what_is_unsure_is_a_suspicion():
    assert outcome_of("deprecated-torchscript", {"a.py": "import torch\ntorch.jit.script(net)\n"}).state == "suspected"


def test_a_script_inside_a_text_is_read_with_its_own_lines():
    text = "STAGE = \"\"\"\\\nimport torch\nmodel.eval\n\"\"\"\nOTHER = r'''\nimport torch\nmodel.train\n'''\n"
    assert [each.finding.where.line for each in places({"a.py": text}).found] == [3, 7]


def test_a_file_that_cannot_be_parsed_is_said():
    reading = places({"a.py": "def (:\n", "b.py": WRONG})
    assert list(reading.unread) == ["a.py"]
    assert len(reading.found) == 2


def test_a_lint_that_fails_ends_nothing(monkeypatch):
    real = _base.lints()

    def broken(source):
        raise ValueError("a bug")

    one = next(each for each in real if each.id == "uncalled-method")._replace(look=broken)
    monkeypatch.setattr(_base, "lints", lambda: tuple(one if each.id == one.id else each for each in real))
    assert outcome_of("uncalled-method", {"a.py": WRONG}).state == "failed"
