"""Classes drawn alike (ledger A-085)."""

import pytest
import torch
from torch.utils.data import TensorDataset

from netdyno.errors import NetdynoError
from netdyno.learning.data.sampler import balanced_loader, prior_shift, weighted_sampler

LABELS = torch.tensor([0] * 900 + [1] * 80 + [2] * 20)


@pytest.mark.parametrize("seed", range(3))
def test_class_frequencies_are_uniform_within_three_sigma(seed):
    draws = 6000
    drawn = list(weighted_sampler(LABELS, draws=draws, generator=torch.Generator().manual_seed(seed)))
    shares = torch.bincount(LABELS[drawn], minlength=3) / draws
    assert (shares - 1 / 3).abs().max() < 3 * (2 / 9 / draws) ** 0.5


def test_the_report_states_how_the_prior_shifts():
    shift = prior_shift(LABELS)
    assert shift.before[2] == pytest.approx(0.02)
    assert shift.after == pytest.approx((1 / 3,) * 3)
    assert "class 2 is 2.0% of the data and 33.3%" in shift.says


def test_shuffle_beside_a_sampler_raises():
    rows = TensorDataset(torch.rand(1000, 2), LABELS)
    with pytest.raises(ValueError, match="exclude each other"):
        balanced_loader(rows, LABELS, shuffle=True)
    assert len(next(iter(balanced_loader(rows, LABELS, batch_size=10)))[1]) == 10


def test_a_class_number_that_does_not_occur_is_not_drawn():
    assert prior_shift([0, 0, 2]).after == (0.5, 0.0, 0.5)


def test_labels_that_are_no_class_numbers_are_refused_in_three_lines():
    with pytest.raises(NetdynoError, match="cannot draw classes alike"):
        weighted_sampler(torch.rand(5))
