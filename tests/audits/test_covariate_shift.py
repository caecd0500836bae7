"""Two samples are told apart only where inputs come from elsewhere (ledger A-207)."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real, split
from netdyno.audits._base import SURE, Skip
from netdyno.audits._learners import told_apart
from netdyno.audits._specimens import specimen
from netdyno.audits.covariate_shift import covariate_shift


def moved(times, plus):
    return lambda part: replace(part, x=times * np.asarray(part.x) + plus)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_halves_of_real_sets_are_alike(name, seed):
    assert covariate_shift(real(name, seed=seed)) is None


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
def test_inputs_of_another_scale_are_found(name):
    finding = covariate_shift(changed(real(name), val=moved(3, 1)))
    assert finding.because["auc"] > 0.9
    assert finding.because["p"] < 0.005
    assert finding.confidence >= SURE


def test_the_column_that_carries_it_is_named_first():
    def one_column(part):
        x = np.array(part.x)
        x[:, 2] += 2 * x[:, 2].std()
        return replace(part, x=x)

    says = covariate_shift(changed(real("breast_cancer"), val=one_column)).says
    assert "shows most in `c2`" in says


def test_other_shares_of_classes_alone_are_no_shift_of_inputs():
    def few_of_others(part):
        keep = np.flatnonzero((part.y == 0) | (np.arange(len(part)) % 4 == 0))
        return replace(part, x=part.x[keep], y=part.y[keep], indices=part.indices[keep])

    assert covariate_shift(changed(real("digits"), val=few_of_others)) is None


def subjects(seed, *, named):
    """Sixty subjects with eight records each, a third of the subjects on the other side."""
    chance = np.random.default_rng(seed)
    who = np.repeat(np.arange(60), 8)
    own = chance.normal(size=(60, 10))
    x, y = own[who] + 0.3 * chance.normal(size=(480, 10)), (own[:, 0] > 0).astype(int)[who]
    cut = {"train": np.flatnonzero(who % 3 > 0), "val": np.flatnonzero(who % 3 == 0)}
    return split(x, y, groups=who if named else None, cut=cut)


def test_subjects_that_are_kept_apart_are_no_shift_where_they_are_named():
    assert [covariate_shift(subjects(seed, named=True)) for seed in range(3)] == [None] * 3


def test_subjects_that_nobody_named_are_never_more_than_a_suspicion():
    found = [covariate_shift(subjects(seed, named=False)) for seed in range(4)]
    assert all(one is None or one.confidence < SURE for one in found)
    assert found.count(None) >= 2


def test_a_shift_is_found_beside_groups():
    view = subjects(0, named=True)
    assert covariate_shift(changed(view, val=moved(1, 3))) is not None


def test_the_permutation_p_value_is_uniform_where_nothing_differs():
    chance = np.random.default_rng(0)
    found = [told_apart(*chance.normal(size=(2, 30, 4)), chance=chance).p for _ in range(40)]
    # Of 40 uniform values 20 are below a half, with a deviation of 3; 8 below a fifth, with one of 2.5.
    assert 8 <= sum(p < 0.5 for p in found) <= 32
    assert sum(p < 0.2 for p in found) <= 18


def test_a_few_samples_are_not_judged():
    with pytest.raises(Skip, match="fewer than 30"):
        covariate_shift(specimen("table", sizes=(100, 20)))
