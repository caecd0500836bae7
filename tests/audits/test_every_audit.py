"""What all audits promise, whoever writes the next one."""

import warnings

import pytest

from netdyno import plugins
from netdyno.audits import _base
from netdyno.audits._base import View
from netdyno.audits._specimens import specimen

AUDITS = dict(plugins.modules("audits"))
HEADINGS = ("Looks for:", "Matters:", "Try:", "Not this:")


def judged(name, view):
    made = view if isinstance(view, View) else view()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _base.judged(_base._from(name, AUDITS[name]), made)


def specimens(kind):
    return [
        pytest.param(name, view, id=f"{name}-{number}")
        for name, module in AUDITS.items()
        for number, view in enumerate(getattr(module, kind, ()))
    ]


@pytest.mark.parametrize(("name", "view"), specimens("SICK"))
def test_it_finds_the_sick_and_what_it_says_can_be_checked(name, view):
    outcome = judged(name, view)
    assert outcome.state in {"found", "suspected"}, outcome.reason
    finding = outcome.finding
    assert finding.id == name
    assert any(letter.isdigit() for letter in finding.says)
    assert finding.because
    assert all(value == value and abs(value) != float("inf") for value in finding.because.values())
    assert finding.fix
    assert set(finding.explains) <= set(AUDITS)


@pytest.mark.parametrize(("name", "view"), specimens("WELL"))
def test_it_leaves_the_well_alone(name, view):
    outcome = judged(name, view)
    assert outcome.state in {"clear", "skipped"}, outcome


@pytest.mark.parametrize("name", AUDITS)
def test_its_file_declares_the_audit_of_its_name_with_both_specimens(name):
    module = AUDITS[name]
    assert not isinstance(module, plugins.Broken), module
    assert isinstance(_base._from(name, module), _base.Audited)
    assert len(module.SICK) >= 1
    assert len(module.WELL) >= 1


@pytest.mark.parametrize("name", AUDITS)
def test_it_explains_itself_under_the_four_headings(name):
    places = [AUDITS[name].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
@pytest.mark.parametrize("name", AUDITS)
def test_healthy_data_leave_it_silent_or_it_says_why_it_did_not_look(name, modality):
    outcome = judged(name, specimen(modality, seed=5))
    assert outcome.state in {"clear", "skipped"}, outcome
    assert outcome.state == "clear" or outcome.reason
