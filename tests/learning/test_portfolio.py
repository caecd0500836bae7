"""Trusted recipes: said with what is there, none twice, and each of settings that its knob takes."""

from learning.test_range_test import setup, sgd
from netdyno.knobs._base import catalogue, read
from netdyno.learning import joint
from netdyno.learning.portfolio import portfolio
from netdyno.records.trial import Change

RATE = (Change(id="learning-rate", settings={"factor": 7.0}),)


def test_each_is_sensible_and_none_comes_twice():
    plain = setup(sgd)
    found = portfolio(catalogue(), plain, RATE)
    assert len(found) >= 5
    assert all(one not in found[:at] for at, one in enumerate(found))
    for recipe in found:
        assert all(read(change) is not None for change in recipe)
        assert joint.sensible(recipe, plain)


def test_only_knobs_that_are_asked_for_are_in_them():
    kinds = {name: kind for name, kind in catalogue().items() if name in ("schedule", "label-smoothing")}
    assert {change.id for recipe in portfolio(kinds, setup(sgd), RATE) for change in recipe} == set(kinds)
    assert portfolio({}, setup(sgd), RATE) == ()


def test_without_a_suggested_rate_the_written_one_stands():
    found = portfolio(catalogue(), setup(sgd), ())
    assert not any(change.id == "learning-rate" for recipe in found for change in recipe)
