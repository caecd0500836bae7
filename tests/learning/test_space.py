"""What a search can turn: settings as choices and numbers, and no setting that is too dear."""

import pytest

from learning.test_proposals import SPACE, change
from netdyno.knobs._base import catalogue, turned
from netdyno.learning.space import distinct, expressible, space
from netdyno.learning.trainings import Trainings


def test_a_setting_whose_training_is_too_dear_is_not_offered():
    from learning.test_range_test import setup, sgd

    plain = setup(sgd)
    field = Trainings(setup=plain, kept=lambda _: None)
    kinds = {"batch-size": catalogue()["batch-size"]}
    every, cheap = (space(kinds, field, (), longest=most)[0].changes for most in (None, plain.updates))
    assert 0 < len(cheap) < len(every)
    assert all(turned((one,), plain).updates <= plain.updates for one in cheap)


def test_recipes_that_change_something_are_named_once():
    one, other = (change("only"),), (change("kind", name="a"),)
    assert distinct((), one, other, one) == (one, other)


@pytest.mark.parametrize(("recipe", "whether"), [((), True), ((change("kind", name="a"),), True), ((change("kind", name="z"),), False), ((change("far"),), False)])  # fmt: skip
def test_whether_a_space_has_a_recipe(recipe, whether):
    assert expressible(recipe, SPACE) is whether
