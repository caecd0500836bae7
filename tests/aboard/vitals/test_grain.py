"""Which images are called coarse."""

import torch

from netdyno.aboard.vitals.grain import block


def test_repeated_pixels_are_squares():
    fine = torch.randn(4, 1, 8, 8)
    assert block(fine.repeat_interleave(4, 2).repeat_interleave(4, 3)) == 4


def test_fine_images_and_flat_ones_are_not():
    assert block(torch.randn(4, 1, 32, 32)) == 1
    assert block(torch.zeros(4, 1, 32, 32)) == 1


def test_images_enlarged_in_one_direction_only_are_not():
    assert block(torch.randn(4, 1, 8, 32).repeat_interleave(4, 2)) == 1
