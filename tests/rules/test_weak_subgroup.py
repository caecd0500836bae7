"""Which group of rows is told to be weak."""

import torch

from netdyno.aboard.vitals._samples_slices import weakest
from netdyno.rules._samples import healthy
from netdyno.rules.weak_subgroup import weak_subgroup


def _rows(wrong_inside, wrong_outside, *, hard=False):
    torch.manual_seed(0)
    x, labels = torch.randn(400, 6), torch.randint(0, 4, (400,))
    inside = labels == 3 if hard else torch.rand(400) < 0.25
    x[:, 2] = inside.float()
    wrong = torch.where(inside, torch.tensor(wrong_inside), torch.tensor(wrong_outside))
    return x, torch.rand(400) >= wrong, labels


def test_a_group_that_is_mostly_wrong_is_told():
    found = weak_subgroup(healthy(**weakest(*_rows(0.5, 0.03))))
    assert found is not None
    assert "feature 2" in found.says


def test_groups_that_are_as_good_as_the_others_are_not():
    assert weak_subgroup(healthy(**weakest(*_rows(0.05, 0.03)))) is None


def test_a_hard_class_is_no_group():
    assert weak_subgroup(healthy(**weakest(*_rows(0.5, 0.03, hard=True)))) is None


def test_columns_of_many_values_name_no_groups():
    x, right, labels = _rows(0.5, 0.03)
    assert weakest(torch.randn_like(x), right, labels) == {}
