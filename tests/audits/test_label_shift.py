"""Shares of classes are compared beyond chance."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real, split
from netdyno.audits._base import SURE
from netdyno.audits.label_shift import label_shift


def thinned(keep, kind=0):
    """Of all classes but one only so many in a hundred are kept."""

    def change(part):
        rows = np.flatnonzero((part.y == kind) | (np.arange(len(part)) % 100 < keep))
        return replace(part, x=part.x[rows], y=part.y[rows], indices=part.indices[rows])

    return change


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_random_splits_of_real_sets_have_equal_shares(name):
    for seed in range(5):
        assert label_shift(real(name, seed=seed)) is None


def test_a_class_that_is_commoner_in_validation_is_named_with_both_shares():
    finding = label_shift(changed(real("digits"), val=thinned(30)))
    assert finding.says.startswith("class 0 is 10% of training and")
    assert finding.confidence >= SURE


def test_a_difference_of_a_few_points_is_silent():
    chance = np.random.default_rng(0)
    y = np.concatenate((chance.random(20_000) < 0.50, chance.random(20_000) < 0.55)).astype(int)
    cut = {"train": np.arange(20_000), "val": np.arange(20_000, 40_000)}
    assert label_shift(split(np.zeros((40_000, 1)), y, cut=cut)) is None


def test_a_split_that_was_balanced_on_purpose_is_a_suspicion():
    def balanced(part):
        rows = np.concatenate([np.flatnonzero(part.y == kind)[:40] for kind in (0, 1)])
        return replace(part, x=part.x[rows], y=part.y[rows], indices=part.indices[rows])

    y = (np.random.default_rng(0).random(900) < 0.2).astype(int)
    view = changed(split(np.zeros((900, 2)), y), val=balanced)
    assert label_shift(view).confidence < SURE


def test_a_few_large_groups_of_one_class_each_are_chance():
    who = np.repeat(np.arange(10), 40)
    y = np.array((0, 1, 0, 1, 0, 0, 0, 1, 1, 0))[who]
    cut = {"train": np.flatnonzero(who < 7), "val": np.flatnonzero(who >= 7)}
    assert label_shift(split(np.zeros((400, 2)), y, groups=who, cut=cut)) is None
    assert label_shift(split(np.zeros((400, 2)), y, cut=cut)) is not None


def test_a_target_of_numbers_that_moved_is_found():
    view = changed(real("diabetes"), val=lambda part: replace(part, y=part.y + part.y.std()))
    assert "median" in label_shift(view).says


def test_other_subjects_with_a_class_each_are_at_most_a_suspicion():
    chance = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 20)
    own, kinds = chance.normal(size=(30, 10)), np.array([0, 0, 1] * 7 + [1, 1, 0] * 3)
    x = own[who] + 0.5 * chance.normal(size=(600, 10))
    cut = {"train": np.flatnonzero(who < 21), "val": np.flatnonzero(who >= 21)}
    assert label_shift(split(x, kinds[who], cut=cut)).confidence < SURE
