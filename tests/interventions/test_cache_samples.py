"""A cache holds what would have been read, and nobody can spoil it."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from interventions.specimens import IMAGES, STREAM, WORDS, Decoded, facts, flipped, profile, stepped, timeline
from netdyno.interventions import cache_samples
from netdyno.interventions.cache_samples import Cached, CacheSamples
from netdyno.records.measured import Split
from netdyno.targets.samples import same


class Made(Dataset):
    """A data set whose samples a function makes."""

    def __init__(self, make, count=8):
        self.make = make
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(index)


class Remembering(Made):
    """Gives another sample each time, whatever the random state."""

    def __init__(self):
        super().__init__(self.next_one)
        self.draws = np.random.default_rng(0)

    def next_one(self, index):
        return torch.tensor(self.draws.random()), index


def fed_by(dataset, **changes):
    subject = IMAGES.fresh()
    return replace(subject, feed=replace(subject.feed, dataset=dataset, **changes))


def fails(index):
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("subject", "because"),
    [
        (WORDS.fresh(), "in memory already"),
        (fed_by(Cached(Decoded())), "in memory already"),
        (STREAM.fresh(), "stream"),
        (fed_by(Made(lambda index: (torch.rand(3), index))), "read twice is not the same"),
        (fed_by(Made(lambda index: (torch.tensor(random.random()), index))), "read twice is not the same"),
        (fed_by(Made(lambda index: (np.random.rand(3), index))), "read twice is not the same"),  # noqa: NPY002
        (fed_by(Remembering()), "read twice is not the same"),
        (fed_by(Made(fails)), "OSError: the disk is gone"),
        (fed_by(Decoded(), workers=2, start_method="spawn"), "`spawn`"),
    ],
)
def test_what_cannot_be_cached_is_refused(subject, because):
    assert because in CacheSamples().refuses(subject)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_budget_counts_a_copy_for_each_worker(monkeypatch, workers):
    subject = fed_by(Decoded(), workers=workers)
    one = 48 * (64 * 4 + 40)
    monkeypatch.setattr(cache_samples, "free_memory", lambda: 2 * one)
    assert (CacheSamples().refuses(subject) is None) == (workers == 0)


def test_every_sample_is_read_once():
    dataset = Decoded()
    with CacheSamples().applied(fed_by(dataset)) as subject:
        stepped(subject, 14)  # more than two epochs
    assert dataset.reads == len(dataset)


def test_the_random_transform_still_draws_anew():
    with CacheSamples().applied(fed_by(Decoded(), augment=flipped)) as subject:
        assert not same(subject.feed.read(3), subject.feed.read(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda index: (torch.full((3,), float(index)), index),
        lambda index: {"x": np.full(3, index), "name": str(index)},
        lambda index: [Image.new("L", (4, 4), index), bytes([index])],
    ],
    ids=["tensors", "arrays in a dict", "images"],
)
def test_a_cached_sample_cannot_be_spoilt_by_who_reads_it(make):
    cached = Cached(Made(make))
    leaves, _ = torch.utils._pytree.tree_flatten(cached[2])
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor | np.ndarray):
            leaf[...] += 1
        elif isinstance(leaf, Image.Image):
            leaf.putpixel((0, 0), 255)
    assert same(cached[2], make(2))


@pytest.mark.parametrize(
    ("sample", "augment", "share"),
    [
        (Split(running=1e-3), Split(), 0.6),  # all of reading is decoding
        (Split(running=1e-3), Split(running=0.5e-3), 0.3),
        (Split(blocked=1e-3), Split(), 0.6),  # a disk is as good a reason
        (Split(running=1e-3), Split(running=0.99e-3), None),  # nearly all of it is the random transform
    ],
)
def test_the_gain_is_what_reading_takes_before_the_random_transform(sample, augment, share):
    prediction = CacheSamples().predicts(facts(timeline(data=60, forward=40), profile(sample=sample, augment=augment)))
    assert (prediction.high if prediction is not None else None) == (share if share is None else pytest.approx(share))
