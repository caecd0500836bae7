"""Groups on both sides: proven by a column, suspected from distances."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, real, split
from netdyno.audits._base import SURE, Skip
from netdyno.audits._learners import in_groups, siblings
from netdyno.audits._specimens import specimen
from netdyno.audits.leaked_groups import leaked_groups


def records(*, apart, seed=0, named=False, signal=True):
    chance = np.random.default_rng(seed)
    who = np.repeat(np.arange(90), 4)
    x = chance.normal(size=(90, 12))[who] + 0.1 * chance.normal(size=(360, 12))
    y = chance.integers(0, 2, 90)[who] if signal else chance.integers(0, 2, 360)
    held = who % 3 == 0 if apart else chance.random(360) < 1 / 3
    cut = {"train": np.flatnonzero(~held), "val": np.flatnonzero(held)}
    return split(x, y, groups=np.array([f"patient {one}" for one in who]) if named else None, cut=cut)


def test_a_shared_group_is_proven_counted_and_shown():
    finding = leaked_groups(records(apart=False, named=True))
    assert finding.confidence >= SURE
    assert "`patient " in finding.says
    assert finding.exhibits[0].split == "val"


def test_one_shared_patient_is_enough():
    view = records(apart=True, named=True)
    val = view.parts["val"]
    named = np.array(val.groups)
    named[0] = view.train.groups[0]
    finding = leaked_groups(replace(view, parts={**view.parts, "val": replace(val, groups=named)}))
    assert finding.because["rows"] == 1


def test_groups_that_are_apart_are_left_alone():
    assert leaked_groups(records(apart=True, named=True)) is None
    assert leaked_groups(records(apart=True)) is None


def test_without_a_column_it_stays_a_suspicion():
    finding = leaked_groups(records(apart=False))
    assert finding.confidence < SURE
    assert finding.because["siblings"] > finding.because["others"]


def test_siblings_that_tell_nothing_of_the_target_are_no_leak():
    assert leaked_groups(records(apart=False, signal=False)) is None


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_real_sets_have_none(name):
    for seed in range(3):
        assert leaked_groups(real(name, seed=seed)) is None


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_unrelated_rows_of_any_number_of_directions_are_not_taken_for_groups(width):
    rows = np.random.default_rng(0).normal(size=(600, width))
    assert not in_groups(siblings(rows, rows, same=True))


def test_equal_rows_are_another_matter():
    rows = np.random.default_rng(0).integers(0, 3, (400, 3)).astype(float)
    assert siblings(rows, rows, same=True) is None


def test_without_targets_it_says_why_it_cannot_tell():
    with pytest.raises(Skip, match="no group column"):
        leaked_groups(specimen("table", train={"y": None}))


def test_cells_that_were_left_empty_are_no_group():
    view = specimen("table", train={"groups": np.array([""] * 240)}, val={"groups": np.array([""] * 120)})
    assert leaked_groups(view) is None
