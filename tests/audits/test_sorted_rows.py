"""Samples in the order of their target."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real
from netdyno.audits._base import SURE
from netdyno.audits._specimens import specimen
from netdyno.audits.sorted_rows import sorted_rows


def in_order(part):
    order = np.argsort(part.y, kind="stable")
    return replace(part, x=np.asarray(part.x)[order], y=part.y[order])


def read_by(view, **loader):
    return replace(view, workload=SimpleNamespace(loader=loader))


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_shuffled_sets_are_left_alone(name):
    assert sorted_rows(read_by(real(name), shuffle=False)) is None


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_sorted_sets_that_nobody_shuffles_are_found(name):
    finding = sorted_rows(read_by(changed(real(name), train=in_order), shuffle=False))
    assert finding.confidence >= SURE


def test_a_loader_that_shuffles_or_samples_makes_it_right():
    view = changed(real("wine"), train=in_order)
    assert sorted_rows(read_by(view)) is None
    assert sorted_rows(read_by(view, shuffle=False, sampler=object())) is None


def test_without_a_loader_it_is_a_suspicion():
    assert sorted_rows(changed(real("wine"), train=in_order)).confidence < SURE


def test_subjects_of_one_class_each_in_a_row_are_not_sorted():
    runs = np.repeat(np.random.default_rng(0).integers(0, 2, 24), 10)
    assert sorted_rows(specimen("table", classes=2, train={"y": runs})) is None


def test_the_order_is_that_of_the_data_set_and_not_of_the_reading():
    view = changed(real("wine"), train=in_order)
    mixed = np.random.default_rng(0).permutation(len(view.train))

    def read_in_any_order(part):
        return replace(part, x=part.x[mixed], y=part.y[mixed], indices=part.indices[mixed])

    assert sorted_rows(changed(view, train=read_in_any_order)) is not None
