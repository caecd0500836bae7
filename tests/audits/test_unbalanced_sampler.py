"""What a weighted sampler delivers (ledger A-085)."""

import numpy as np
import torch
from torch.utils.data import WeightedRandomSampler

from netdyno.audits import unbalanced_sampler as room
from netdyno.audits.unbalanced_sampler import delivered, unbalanced_sampler


def test_weights_of_one_over_count_deliver_equal_shares_and_the_draws_follow():
    labels = np.repeat([0, 1, 2], (700, 250, 50))
    weights = (1 / np.bincount(labels))[labels]
    assert delivered(weights, labels).sigmas < 1e-6
    torch.manual_seed(0)
    drawn = np.bincount(labels[list(WeightedRandomSampler(weights.tolist(), 30_000))]) / 30_000
    assert np.abs(drawn - 1 / 3).max() < 3 * np.sqrt(2 / 9 / 30_000)


def test_weights_per_class_instead_of_per_sample_are_found():
    assert "only the first 2 are ever drawn" in unbalanced_sampler(room._workload([1 / 90, 1 / 10])).says


def test_counts_instead_of_their_inverse_are_found():
    assert "less even" in unbalanced_sampler(room._workload([90.0] * 90 + [10.0] * 10)).says


def test_weights_of_samples_and_not_of_classes_are_left_alone():
    hard = np.random.default_rng(0).uniform(0.1, 1.0, 100)
    hard[90:] *= 0.3
    assert unbalanced_sampler(room._workload(hard.tolist())) is None
