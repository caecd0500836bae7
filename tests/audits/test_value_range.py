"""Ranges that no network is made for."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.audits.value_range import value_range


def images(change, seed=0):
    made = lambda part: replace(part, x=change(np.asarray(part.x)))
    return specimen("images", seed=seed, train=made, val=made)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_wrapped_are_told_from_bytes(seed):
    levels = lambda x: np.rint(x * 255).astype(np.uint8)
    assert "wrapped" in value_range(images(lambda x: levels(x) - np.uint8(levels(x).mean()), seed)).says
    assert value_range(images(levels, seed)) is None


@pytest.mark.parametrize("seed", range(3))
def test_inverted_pictures_are_listed_with_samples_of_both_sides(seed):
    finding = value_range(specimen("images", seed=seed, val=lambda part: replace(part, x=1 - part.x)))
    assert "light and dark are exchanged in val" in finding.says
    assert {one.split for one in finding.exhibits} == {"train", "val"}


def test_standardising_twice_with_known_numbers_is_recognised():
    mean = np.array((0.485, 0.456, 0.406), np.float32)[:, None, None]
    deviation = np.array((0.229, 0.224, 0.225), np.float32)[:, None, None]

    def ends(x):
        x = x.copy()
        x[0, :, 0, 0], x[1, :, 0, 0] = 0.0, 1.0
        return x

    once = images(lambda x: (ends(x) - mean) / deviation)
    twice = images(lambda x: ((ends(x) - mean) / deviation - mean) / deviation)
    assert value_range(once) is None
    assert "ImageNet's" in value_range(twice).says


def test_black_and_white_pictures_are_no_wrapped_ones():
    assert value_range(images(lambda x: np.where(x > 0.4, 255, 0).astype(np.uint8))) is None
