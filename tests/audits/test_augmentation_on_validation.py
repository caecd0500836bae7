"""Validation samples that stay what they are."""

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.augmentation_on_validation import augmentation_on_validation
from netdyno.targets.workload import Workload


class Rarely(Dataset):
    """One sample in three is mirrored."""

    def __len__(self):
        return 60

    def __getitem__(self, index):
        image = torch.arange(4.0) + index
        return image.flip(0) if torch.rand(()) < 1 / 3 else image, 0


def view(val):
    train = TensorDataset(torch.rand(20, 4), torch.zeros(20, dtype=torch.long))
    return specimen("table", workload=Workload(model=torch.nn.Identity, train=lambda: train, val=lambda: val))


def test_samples_that_change_are_named():
    finding = augmentation_on_validation(view(Rarely()))
    assert {one.split for one in finding.exhibits} == {"val"}
    assert 0 < finding.because["changed"] < finding.because["looked_at"]


def test_looking_leaves_the_random_state_alone():
    declared = view(Rarely())
    before = torch.get_rng_state()
    augmentation_on_validation(declared)
    assert torch.equal(before, torch.get_rng_state())


def test_data_without_a_workload_are_not_judged():
    with pytest.raises(Skip):
        augmentation_on_validation(specimen("images"))
