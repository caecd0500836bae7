"""How a batch is made, with samples whose cost is known."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from netdyno.measure.stopwatch import Reading
from netdyno.probes.loader_profile import collect, same, stackable
from netdyno.targets.workload import Workload


class Passing:
    """Stands still until the workload's parts move it."""

    def __init__(self):
        self.wall = self.ran = 0.0

    def run(self, ms):
        self.wall += ms
        self.ran += ms

    def block(self, ms):
        self.wall += ms

    def __call__(self):
        return Reading(round(self.wall * 1e6), round(self.ran * 1e6), 0)


class Samples(Dataset):
    def __init__(self, read=lambda: None, count=64):
        self.read, self.count = read, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.read()
        return torch.full((4,), float(index)), index % 2


def profiled(clock=None, budget_s=0.05, **changes):
    settings = {
        "model": lambda: torch.nn.Linear(4, 2),
        "train": Samples,
        "val": Samples,
        "batch_size": 8,
        "name": "w",
    }
    subject = Workload(**{**settings, **changes}).fresh(0)
    return collect(subject, clock=clock or Passing(), budget_s=budget_s)


def test_reading_transforming_and_collating_are_told_apart():
    clock = Passing()

    def augment(sample):
        clock.run(3)
        return sample

    def collate(samples):
        clock.run(10)
        return torch.utils.data.default_collate(samples)

    found = profiled(clock, train=lambda: Samples(lambda: clock.block(5)), augment=augment, collate=collate)
    assert found.sample.blocked == pytest.approx(0.005)
    assert found.augment.running == pytest.approx(0.003)
    assert found.sample.running == found.augment.running  # the transform is a part of making a sample
    assert found.collate.running == pytest.approx(0.010)


def test_sizes_are_of_a_whole_batch_and_of_the_whole_dataset():
    found = profiled()
    assert found.batch_bytes == 8 * (4 * 4 + 8)
    assert found.dataset_bytes == 64 * (4 * 4 + 8)
    assert (found.samples, found.batch_size) == (64, 8)


def test_tensors_in_memory_are_sized_exactly():
    data = TensorDataset(torch.zeros(100, 3), torch.zeros(100, dtype=torch.long))
    assert profiled(train=lambda: data, val=lambda: data, model=lambda: torch.nn.Linear(3, 2)).dataset_bytes == 100 * 20


DRAWS = {
    "torch": lambda: torch.rand(()),
    "numpy": np.random.rand,
    "random": random.random,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_dataset_that_draws_by_chance_is_not_deterministic(draw):
    class Noisy(Samples):
        def __getitem__(self, index):
            return torch.full((4,), float(draw())), 0

    assert not profiled(train=Noisy).deterministic
    assert profiled().deterministic


def test_a_random_transform_does_not_make_the_dataset_undetermined():
    assert profiled(augment=lambda sample: (sample[0] + torch.rand(()), sample[1])).deterministic


def test_samples_of_one_shape_can_be_stacked_and_others_cannot():
    assert stackable([(torch.zeros(3), 1), (torch.ones(3), 0)])
    assert not stackable([(torch.zeros(3), 1), (torch.zeros(4), 1)])
    assert not stackable([("text", 1), ("text", 2)])
    assert stackable([{"x": np.zeros(2)}, {"x": np.ones(2)}])
    assert not stackable([])


def test_contents_are_compared_and_not_addresses():
    image = Image.new("L", (4, 4), 7)
    assert same((image, np.arange(3)), (image.copy(), np.arange(3)))
    assert not same(image, Image.new("L", (4, 4), 8))
    assert not same(np.arange(3), np.arange(3)[::-1])


def test_the_start_of_an_epoch_is_timed_apart_from_the_first_batch():
    clock = Passing()
    reads = []

    def read():
        reads.append(1)
        clock.run(100 if len(reads) <= 1000 else 1)

    found = profiled(clock, train=lambda: Samples(read))
    assert found.epoch_start_s > 0
    assert found.first_batch_s == pytest.approx(0.8)


def test_data_without_a_length_are_profiled_in_order():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.full((4,), float(number)), number % 2) for number in range(40)])

    found = profiled(train=Stream)
    assert found.iterable
    assert not found.deterministic
    assert found.dataset_bytes is None
    assert found.samples == -1


def test_workers_are_counted_and_ended():
    import multiprocessing

    subject = Workload(
        model=lambda: torch.nn.Linear(4, 2),
        train=Samples,
        val=Samples,
        batch_size=8,
        loader={"num_workers": 1},
        name="w",
    ).fresh(0)
    found = collect(replace(subject), budget_s=0.05)
    assert found.workers == 1
    assert found.first_batch_s > 0
    assert multiprocessing.active_children() == []
