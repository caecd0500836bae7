"""Transforms that make one class of another, on real digits."""

from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_digits

from audits._real import split
from netdyno.audits.label_breaking_augmentation import label_breaking_augmentation
from netdyno.targets.garage.digits import augment as turned_a_little


def digits(augment, seed=0):
    known = load_digits()
    view = split(known.images[:, None] / 16, known.target, seed=seed, modality="images")
    return replace(view, augment=augment)


def upside_down(sample):
    return torch.rot90(sample[0], 2, (1, 2)), sample[1]


def sometimes_upside_down(sample):
    return upside_down(sample) if torch.rand(()) < 0.5 else sample


def noisy(sample):
    return sample[0] + 0.1 * torch.randn_like(sample[0]), sample[1]


def shifted(sample):
    return torch.roll(sample[0], int(torch.randint(-1, 2, ())), 2), sample[1]


@pytest.mark.parametrize("seed", range(3))
def test_half_a_turn_makes_sixes_and_nines_look_like_each_other(seed):
    finding = label_breaking_augmentation(digits(upside_down, seed))
    assert "6 and 9" in finding.says
    assert finding.exhibits[0].picture
    assert label_breaking_augmentation(digits(sometimes_upside_down, seed)) is not None


@pytest.mark.parametrize("augment", [noisy, shifted])
@pytest.mark.parametrize("seed", range(5))
def test_noise_and_small_shifts_are_left_alone(augment, seed):
    assert label_breaking_augmentation(digits(augment, seed)) is None


@pytest.mark.parametrize("seed", range(2))
def test_the_augmentation_of_the_garage_is_left_alone(seed):
    from netdyno.audits._workloads import view
    from netdyno.targets.garage.digits import WORKLOAD

    looked = view(WORKLOAD, "garage:digits", sample=600, seed=seed)
    assert looked.augment is turned_a_little
    assert label_breaking_augmentation(looked) is None
