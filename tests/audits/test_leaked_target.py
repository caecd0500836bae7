"""A column that was made of the target is told from one that is good by nature."""

import numpy as np
import pytest

from audits._real import CLASSES, changed, column, everywhere, real, split
from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.leaked_target import leaked_target


def leaking(noise, number=0):
    def change(part):
        chance = np.random.default_rng(len(part))
        return column(part, number, part.y + noise * np.std(part.y) * chance.normal(size=len(part)))

    return change


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_strong_columns_of_real_sets_are_no_leak(name):
    assert leaked_target(real(name)) is None


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_copy_of_the_target_is_found_and_named(name, noise):
    finding = leaked_target(everywhere(real(name), leaking(noise)))
    assert "`c0`" in finding.says
    assert finding.because["alone"] > 0.97


def test_a_target_that_leaked_twice_is_found():
    view = everywhere(everywhere(real("breast_cancer"), leaking(0.0)), leaking(0.0, number=1))
    assert leaked_target(view) is not None


def test_a_classification_with_one_separating_column_among_equals_is_easy_and_no_leak():
    view = real("iris")
    setosa = everywhere(view, lambda part: part.__class__(**{**_fields(part), "y": (part.y == 0).astype(int)}))
    assert leaked_target(setosa) is None


def _fields(part):
    return {name: getattr(part, name) for name in ("name", "x", "y", "indices", "total")}


def test_the_number_of_the_row_is_no_leak_where_rows_are_sorted():
    chance = np.random.default_rng(0)
    y = np.repeat((0, 1, 2), 100)
    x = np.column_stack((np.arange(300), chance.normal(size=(300, 3)) + 0.3 * y[:, None]))
    rows = np.arange(300)
    view = split(x, y, cut={"train": rows[rows % 3 > 0], "val": rows[rows % 3 == 0]})
    assert leaked_target(view) is None


def test_a_mark_that_only_training_has_is_no_leak():
    assert leaked_target(changed(real("wine"), train=leaking(0.0))) is None


def test_texts_have_no_columns():
    with pytest.raises(Skip, match="texts"):
        leaked_target(specimen("text"))
