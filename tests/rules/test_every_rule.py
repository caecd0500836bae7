"""What all rules promise, whoever writes the next one."""

import pkgutil
import subprocess
import sys

import pytest

from netdyno import interventions, plugins
from netdyno.rules import _base

RULES = dict(plugins.modules("rules"))
HEADINGS = ("Looks for:", "Matters:", "Try:", "Not this:")


def judged(name, specimen):
    facts = {type(item): item for item in specimen}
    return _base.judged(_base._from(name, RULES[name]), facts)


def specimens(kind):
    return [
        pytest.param(name, specimen, id=f"{name}-{number}")
        for name, module in RULES.items()
        for number, specimen in enumerate(getattr(module, kind))
    ]


@pytest.mark.parametrize(("name", "specimen"), specimens("SICK"))
def test_it_finds_the_sick(name, specimen):
    outcome = judged(name, specimen)
    assert outcome.state in {"found", "suspected"}, outcome.reason


@pytest.mark.parametrize(("name", "specimen"), specimens("WELL"))
def test_it_leaves_the_well_alone(name, specimen):
    outcome = judged(name, specimen)
    assert outcome.state == "clear", outcome


@pytest.mark.parametrize("name", RULES)
def test_its_file_declares_the_rule_of_its_name_with_both_specimens(name):
    module = RULES[name]
    assert not isinstance(module, plugins.Broken), module
    assert isinstance(_base._from(name, module), _base.Rule)
    assert len(module.SICK) >= 1
    assert len(module.WELL) >= 1


@pytest.mark.parametrize("name", RULES)
def test_it_explains_itself_under_the_four_headings(name):
    places = [RULES[name].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", RULES)
def test_without_evidence_it_is_skipped_and_says_what_is_missing(name):
    outcome = judged(name, ())
    assert outcome.state == "skipped"
    for need in _base._from(name, RULES[name]).needs:
        assert need.optional or need.kind.__name__ in outcome.reason


@pytest.mark.parametrize(("name", "specimen"), specimens("SICK"))
def test_what_it_says_can_be_checked(name, specimen):
    finding = judged(name, specimen).finding
    assert finding.id == name
    assert 0 <= finding.saves.low <= finding.saves.high <= 1
    assert any(letter.isdigit() for letter in finding.says)
    assert finding.because
    assert finding.fix


@pytest.mark.parametrize("name", RULES)
def test_every_change_it_suggests_exists(name):
    there = {plugins.plugin_id(info.name) for info in pkgutil.iter_modules(interventions.__path__)}
    assert set(_base._from(name, RULES[name]).suggests) <= there


@pytest.mark.parametrize(("name", "specimen"), specimens("SICK"))
def test_what_it_explains_and_refers_to_are_rules(name, specimen):
    outcome = judged(name, specimen)
    assert set(outcome.finding.explains) <= set(RULES)
    mentioned = RULES[name].__doc__.split("(see `")[1:]
    assert {mention.split("`")[0] for mention in mentioned} <= set(RULES)


def test_rules_run_without_torch():
    code = "import sys; from netdyno.rules._base import diagnose; diagnose(()); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
