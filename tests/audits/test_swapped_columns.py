"""Columns in another order."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import changed, real
from netdyno.audits._specimens import specimen
from netdyno.audits.swapped_columns import swapped_columns


def swapped(*order):
    def change(part):
        x = np.array(part.x)
        x[:, sorted(order)] = x[:, list(order)]
        return replace(part, x=x)

    return change


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_real_sets_have_none(name):
    for seed in range(3):
        assert swapped_columns(real(name, seed=seed)) is None


@pytest.mark.parametrize(("name", "pair"), [("iris", (2, 1)), ("wine", (4, 0)), ("breast_cancer", (7, 2))])
def test_two_swapped_columns_of_real_sets_are_named(name, pair):
    finding = swapped_columns(changed(real(name), val=swapped(*pair)))
    assert f"`c{pair[0]}` holds what training calls `c{pair[1]}`" in finding.says


def test_three_columns_in_a_circle_are_put_back():
    finding = swapped_columns(changed(real("wine"), val=swapped(12, 0, 4)))
    assert finding.because["columns"] == 3


def test_columns_of_one_scale_are_told_by_their_company():
    view = real("diabetes")
    assert swapped_columns(changed(view, val=swapped(6, 2))) is not None


def test_columns_that_drift_by_themselves_are_not_swapped():
    assert swapped_columns(changed(real("wine"), val=lambda part: replace(part, x=1.5 * part.x + 1))) is None


def test_columns_that_nothing_tells_apart_are_silent():
    def noise(part):
        return replace(part, x=np.random.default_rng(len(part)).normal(size=(len(part), 4)).astype(np.float32))

    view = specimen("table", train=noise, val=noise)
    assert swapped_columns(changed(view, val=swapped(1, 0))) is None
