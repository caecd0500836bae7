"""The numbers that inputs are normalised with (ledger A-078)."""

import numpy as np
import pytest
import torch

from netdyno.learning.data.normalise import IMAGENET_MEAN, chosen, streamed


def test_streamed_statistics_are_those_of_all_values_at_once():
    images = np.random.default_rng(0).normal(1e4, 0.5, (120, 3, 8, 8)) * np.array([1, 2, 3])[:, None, None]
    found = streamed((torch.from_numpy(image), 0) for image in images)
    assert found.mean == pytest.approx(images.mean((0, 2, 3)), rel=1e-12)
    assert found.deviation == pytest.approx(images.std((0, 2, 3)), rel=1e-9)
    assert found.samples == 120


def test_columns_of_a_table_have_their_own():
    rows = np.random.default_rng(1).normal(size=(200, 4)) * [1, 10, 100, 0]
    found = streamed(rows)
    assert found.deviation[:3] == pytest.approx(rows.std(0)[:3])
    assert found.deviation[3] == 1.0


def test_imagenet_s_are_only_for_a_backbone_that_was_pretrained_with_them():
    images = torch.rand(8, 3, 4, 4)
    assert chosen(images, pretrained="ImageNet-1k").mean == IMAGENET_MEAN
    assert chosen(images).mean != IMAGENET_MEAN
    assert chosen(images, pretrained="my own X-rays").mean == chosen(images).mean


def test_few_samples_are_said_to_be_few():
    assert "few" in chosen(torch.rand(8, 3, 4, 4)).reason
    assert "few" not in chosen(torch.rand(150, 3, 2, 2)).reason


def test_nothing_gives_no_statistics():
    with pytest.raises(ValueError, match="no sample"):
        streamed(())
