"""Samples are looked at without a trace."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset, TensorDataset

from interventions.specimens import IMAGES, STREAM, WORDS, Decoded
from netdyno.targets.samples import (
    batch_bytes,
    deterministic,
    first_batch,
    in_memory,
    kept_randomness,
    same,
    size,
    spread,
    tensors_behind,
)
from netdyno.targets.workload import seed_everything


def draw():
    return torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002  what user code draws from


def test_random_state_stands_where_it_stood_even_when_the_inside_raises():
    seed_everything(1)
    expected = draw()

    def raising():
        with kept_randomness():
            draw()
            seed_everything(9)
            raise KeyError

    seed_everything(1)
    with pytest.raises(KeyError):
        raising()
    assert draw() == expected


GREY = Image.new("L", (2, 2), 7)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (torch.zeros(2), torch.zeros(2), True),
        (torch.zeros(2), -torch.zeros(2), False),  # equal as numbers, not as bits
        (torch.tensor(float("nan")), torch.tensor(float("nan")), True),
        (torch.zeros(2), torch.zeros(2).double(), False),
        (torch.zeros(2, 1), torch.zeros(1, 2), False),
        (torch.arange(4).reshape(2, 2).t(), torch.tensor([[0, 2], [1, 3]]), True),  # strides are no content
        ((torch.zeros(1), 3), (torch.zeros(1), 3), True),
        ((torch.zeros(1), 3), [torch.zeros(1), 3], False),
        ({"a": 1}, {"b": 1}, False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(3) + 1, False),
        (GREY, GREY.copy(), True),
        (GREY, Image.new("L", (2, 2), 8), False),
        (1, True, False),
        ("a", "a", True),
        (torch.empty(0), torch.empty(0), True),
        (torch.tensor(1, dtype=torch.bfloat16), torch.tensor(1, dtype=torch.bfloat16), True),
    ],
)
def test_same_means_the_same_structure_and_bytes(one, other, equal):
    assert same(one, other) == equal


@pytest.mark.parametrize(
    ("sample", "count"),
    [
        (torch.zeros(3, 4), 48),
        ((torch.zeros(3), 5), 52),
        ({"x": np.zeros(4, dtype=np.int16)}, 8),
        (GREY, 4),
        ([], 0),
    ],
)
def test_size_counts_leaf_by_leaf(sample, count):
    assert size(sample) == count


@pytest.mark.parametrize(
    ("count", "most", "chosen"),
    [(3, 5, [0, 1, 2]), (100, 4, [0, 33, 66, 99]), (10, 1, [0]), (0, 4, []), (2, 2, [0, 1])],
)
def test_spread_reaches_from_first_to_last(count, most, chosen):
    assert spread(count, most) == chosen


def test_reading_for_a_look_moves_no_random_state():
    subject = IMAGES.fresh()
    state, python = torch.get_rng_state(), random.getstate()
    assert deterministic(subject.feed.dataset)
    first_batch(subject.feed)
    batch_bytes(subject.feed)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python


@pytest.mark.parametrize("feed", [IMAGES.fresh().feed, WORDS.fresh().feed, STREAM.fresh().feed])
def test_a_first_batch_has_the_form_of_the_loaders(feed):
    batches = feed.epochs()
    one, other = first_batch(feed), next(batches)
    batches.close()
    assert [(part.shape, part.dtype) for part in one] == [(part.shape, part.dtype) for part in other]


def test_a_first_batch_of_slices_is_a_slice():
    feed = replace(WORDS.fresh().feed, direct=lambda chosen: chosen * 10)
    assert first_batch(feed).tolist() == [0, 10, 20, 30]


def test_bytes_of_a_batch_are_those_of_its_samples():
    assert batch_bytes(replace(WORDS.fresh().feed, batch_size=5)) == 5 * (12 * 8 + 8)
    assert batch_bytes(STREAM.fresh().feed) == 8 * (64 * 4 + 40)


def test_tensors_are_found_behind_subsets():
    rows = TensorDataset(torch.arange(10), torch.arange(10) * 2)
    nested = Subset(Subset(rows, [9, 5, 3, 1]), [3, 0])
    assert [tensor.tolist() for tensor in tensors_behind(nested)] == [[1, 9], [2, 18]]
    assert in_memory(nested)
    assert tensors_behind(Subset(Decoded(), [0])) is None
    assert not in_memory(Subset(Decoded(), [0]))
