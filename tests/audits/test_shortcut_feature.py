"""Marks that only training has."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, column, everywhere, real
from netdyno.audits._specimens import specimen
from netdyno.audits.shortcut_feature import shortcut_feature


def marked(part, right=1.0):
    chance = np.random.default_rng(1)
    return column(part, 0, np.where(chance.random(len(part)) < right, part.y, chance.permutation(part.y)))


def blank(part):
    return column(part, 0, 0.0)


@pytest.mark.parametrize("name", CLASSES)
def test_real_sets_have_none(name):
    assert shortcut_feature(real(name)) is None


@pytest.mark.parametrize("right", [1.0, 0.9])
def test_a_mark_in_the_digits_is_found_though_it_is_not_always_right(right):
    finding = shortcut_feature(changed(real("digits"), train=lambda part: marked(part, right), val=blank))
    assert "`c0`" in finding.says
    assert finding.because["in_training"] > 0.6 > 0.1 > finding.because["in_val"]


def test_a_coloured_pixel_is_named_by_its_place():
    def coloured(part):
        x = np.array(part.x)
        x[:, 0, 3, 5] = part.y / 4
        return replace(part, x=x)

    assert "row 3, column 5 of channel 0" in shortcut_feature(specimen("images", train=coloured)).says


def test_a_mark_that_is_everywhere_is_a_leak_and_no_shortcut():
    assert shortcut_feature(everywhere(real("digits"), marked)) is None


def test_a_split_that_is_different_altogether_has_no_shortcut():
    view = real("iris")
    assert shortcut_feature(changed(view, val=lambda part: replace(part, x=part.x * 3 + 1))) is None


def test_a_rare_class_of_which_a_split_has_three_is_not_judged():
    chance = np.random.default_rng(0)
    x = chance.normal(size=(600, 4)).astype(np.float32)
    y = (x[:, 0] > 2.0).astype(int)
    view = specimen("table", sizes=(400, 200))
    parts = {
        name: replace(part, x=x[rows], y=y[rows])
        for (name, part), rows in zip(view.parts.items(), (slice(400), slice(400, 600)), strict=True)
    }
    with pytest.raises(Exception, match="no other split has enough targets"):
        shortcut_feature(replace(view, parts=parts))


@pytest.mark.parametrize("by", [0.5, 1.0])
def test_columns_that_moved_and_tell_as_much_where_they_are_now_are_no_marks(by):
    def moved(part):
        return replace(part, x=part.x + by * part.x.std(0))

    assert shortcut_feature(changed(real("wine"), val=moved)) is None
