"""What all lints promise, whoever writes the next one."""

import ast
import subprocess
import sys
from typing import get_args

import pytest

from netdyno import plugins
from netdyno.lint import _base
from netdyno.lint._python import Python
from netdyno.records.diagnosis import LAYERS, Stage

LINTS = dict(plugins.modules("lint"))
HEADINGS = ("Looks for:", "Wrong:", "Right:", "Not this:")


def file_of(name):
    reads = _base._from(name, LINTS[name]).reads
    return getattr(LINTS[name], "FILE", "train.py" if reads is Python else "run.sh")


def found(name, text):
    reading = _base.places({file_of(name): text}, select=[name])
    assert not reading.unread, reading.unread
    assert not reading.failed, reading.failed
    return reading.found


def specimens(kind):
    return [
        pytest.param(name, text, id=f"{name}-{number}")
        for name, module in LINTS.items()
        for number, text in enumerate(getattr(module, kind))
    ]


@pytest.mark.parametrize(("name", "text"), specimens("BAD"))
def test_it_finds_the_wrong_form(name, text):
    assert found(name, text)


@pytest.mark.parametrize(("name", "text"), specimens("GOOD"))
def test_it_leaves_the_right_form_and_the_look_alikes_alone(name, text):
    assert found(name, text) == ()


@pytest.mark.parametrize(("name", "text"), specimens("BAD"))
def test_what_it_says_has_a_place_and_a_remedy(name, text):
    for each in found(name, text):
        finding = each.finding
        assert finding.id == name
        assert finding.where.file == file_of(name)
        assert 1 <= finding.where.line <= text.count("\n") + 1
        assert finding.says
        assert "\n" not in finding.fix
        assert 0 < finding.confidence <= 1


@pytest.mark.parametrize(("name", "text"), specimens("BAD"))
def test_its_fix_cures_what_it_touches_and_compiles(name, text):
    fixable = [each for each in found(name, text) if each.edits]
    for file, after in _base.fixed({file_of(name): text}, fixable).items():
        assert after != text
        ast.parse(after)
        assert len(found(name, after)) == len(found(name, text)) - len(fixable), f"{file}:\n{after}"


@pytest.mark.parametrize("name", LINTS)
def test_its_file_declares_the_lint_of_its_name_with_both_specimens(name):
    module = LINTS[name]
    assert not isinstance(module, plugins.Broken), module
    each = _base._from(name, module)
    assert isinstance(each, _base.Lint)
    assert each.layer in LAYERS
    assert each.stage in get_args(Stage)
    assert len(module.BAD) >= 1
    assert len(module.GOOD) >= 1


@pytest.mark.parametrize("name", LINTS)
def test_it_explains_itself_under_the_four_headings(name):
    places = [LINTS[name].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize(("name", "text"), specimens("BAD"))
def test_a_comment_excuses_a_line(name, text):
    if file_of(name) == "train.py":
        lines = text.split("\n")
        for each in found(name, text):
            lines[each.finding.where.line - 1] += f"  # netdyno: ignore[{name}]"
        excused = "\n".join(lines)
        assert found(name, excused) == ()


def test_lints_run_without_torch():
    code = (
        "import sys; from netdyno.lint._base import check; check({'a.py': 'x = 1'}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_lint_has_the_name_of_a_rule():
    from netdyno.cli._options import files_of

    assert set(LINTS) & (set(files_of("rules")) | set(files_of("interventions"))) == set()
