"""The data path: the same samples in the same order, whatever its settings."""

import copy
import itertools
import multiprocessing
import os
import random
import warnings
import zlib
from dataclasses import replace
from multiprocessing.process import current_process
from multiprocessing.util import get_temp_dir

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from netdyno.targets.feed import Feed, checksum


def numbers(count: int = 10) -> TensorDataset:
    return TensorDataset(torch.arange(count), torch.arange(count) * 10)


def taken(feed: Feed, batches: int) -> list[list[int]]:
    epochs = feed.epochs()
    got = [batch[0].tolist() for batch in itertools.islice(epochs, batches)]
    epochs.close()
    return got


def test_an_epoch_holds_each_sample_once_and_the_next_has_another_order():
    batches = taken(Feed(dataset=numbers(), batch_size=5), 4)
    first, second = batches[0] + batches[1], batches[2] + batches[3]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


@pytest.mark.parametrize("settings", [{"workers": 2}, {"workers": 1, "persistent_workers": True}, {"seed": 4}])
def test_the_order_depends_on_the_seed_alone(settings):
    plain = Feed(dataset=numbers(), batch_size=3, seed=settings.get("seed", 0))
    torch.manual_seed(99)
    assert taken(replace(plain, **settings), 7) == taken(plain, 7)
    assert taken(replace(plain, seed=17), 7) != taken(plain, 7)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_cut_from_tensors_equal_those_of_the_loader(shuffle, drop_last):
    data = numbers()
    loaded = Feed(dataset=data, batch_size=4, shuffle=shuffle, drop_last=drop_last)
    direct = replace(loaded, direct=lambda chosen: tuple(tensor[chosen] for tensor in data.tensors))
    assert taken(direct, 7) == taken(loaded, 7)


def test_the_last_batch_is_dropped_or_kept_as_declared():
    assert Feed(dataset=numbers(), batch_size=4).steps_per_epoch == 2
    kept = Feed(dataset=numbers(), batch_size=4, drop_last=False)
    assert kept.steps_per_epoch == 3
    assert [len(batch) for batch in taken(kept, 3)] == [4, 4, 2]


def test_a_declared_sampler_gives_the_order_and_is_seeded():
    sampler = WeightedRandomSampler([1.0] * 5 + [0.0] * 5, num_samples=20)
    feed = Feed(dataset=numbers(), batch_size=5, sampler=sampler)
    torch.manual_seed(0)
    first = taken(feed, 6)
    torch.manual_seed(1)
    assert taken(feed, 6) == first
    assert set(itertools.chain(*first)) <= set(range(5))
    assert feed.steps_per_epoch == 4
    assert feed.samples == 10
    assert sampler.generator is None
    assert feed.evaluation().sampler is None


def plus_chance(sample):
    return sample[0] + random.random(), sample[1]


def test_workers_draw_different_random_numbers():
    feed = Feed(dataset=numbers(8), batch_size=4, workers=2, augment=plus_chance, shuffle=False)
    drawn = [value - int(value) for batch in taken(feed, 2) for value in batch]
    assert len(set(drawn)) == 8
    assert taken(feed, 2) == taken(copy.copy(feed), 2)


class Stream(IterableDataset):
    def __iter__(self):
        return ((torch.tensor(value), torch.tensor(0)) for value in range(6))


def test_a_stream_is_read_in_order_and_its_samples_are_transformed():
    feed = Feed(dataset=Stream(), batch_size=3, augment=lambda sample: (sample[0] + 100, sample[1]))
    assert taken(feed, 3) == [[100, 101, 102], [103, 104, 105], [100, 101, 102]]
    assert feed.steps_per_epoch is None
    assert taken(feed.evaluation(), 1) == [[0, 1, 2]]


class Nothing(IterableDataset):
    def __iter__(self):
        return iter(())


def test_data_that_yield_nothing_end_instead_of_turning_for_ever():
    assert taken(Feed(dataset=Nothing(), batch_size=3), 5) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_who_stops_early_leaves_no_worker_behind(persistent):
    before = set(multiprocessing.active_children())
    epochs = Feed(dataset=numbers(64), batch_size=2, workers=2, persistent_workers=persistent).epochs()
    next(epochs)
    assert len(set(multiprocessing.active_children()) - before) == 2
    epochs.close()
    assert set(multiprocessing.active_children()) <= before


def test_collating_is_timed_in_this_process_only():
    entered = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *_):
            pass

    feed = Feed(dataset=numbers(), batch_size=5)
    list(itertools.islice(feed.epochs(nested=Note), 2))
    assert entered == ["collate", "collate"]
    epochs = replace(feed, workers=1).epochs(nested=Note)
    next(epochs)
    epochs.close()
    assert len(entered) == 2


def test_evaluation_is_in_order_whole_and_without_chance():
    feed = Feed(dataset=numbers(5), batch_size=2, augment=plus_chance, direct=lambda chosen: None)
    assert taken(feed.evaluation(), 3) == [[0, 1], [2, 3], [4]]


class Raising(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        raise OSError("truncated")


def test_what_a_dataset_raises_comes_out():
    with pytest.raises(OSError, match="truncated"):
        next(Feed(dataset=Raising(), batch_size=2).epochs())


def test_a_checksum_is_of_content_and_form():
    one = [torch.tensor([1.0, 2.0]), {"name": "a", "scalar": torch.tensor(3)}]
    assert checksum(one) == checksum(copy.deepcopy(one))
    assert checksum([torch.tensor([1.0, 2.0])]) != checksum([torch.tensor([[1.0, 2.0]])])
    assert checksum([torch.tensor([1.0])]) != checksum([torch.tensor([1], dtype=torch.int32)])
    assert checksum([torch.zeros(0)]) != checksum([torch.zeros(0, 1)])
    assert checksum([torch.tensor(1.0).bfloat16()]) == checksum([torch.tensor(1.0).bfloat16()])


def test_a_checksum_tells_large_arrays_apart_and_does_not_see_addresses():
    large = np.zeros(5000)
    other = large.copy()
    other[2500] = 1
    assert checksum([large]) != checksum([other])
    assert checksum([object()]) == checksum([object()])


def test_more_workers_than_cores_are_no_reason_to_warn():
    crowded = Feed(dataset=numbers(3), batch_size=1, workers=len(os.sched_getaffinity(0)) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(taken(crowded, 5)) == 5  # into the second epoch, which starts its workers anew


def test_what_else_the_loader_warns_of_is_still_said():
    slow = Feed(dataset=numbers(3), batch_size=1, workers=1, extra={"in_order": True, "timeout": 5}, pin_memory=True)
    if torch.accelerator.is_available():
        pytest.skip("pinning is right here")
    with pytest.warns(UserWarning, match="pin_memory"):
        taken(slow, 1)


class Folders(Dataset):
    """Each sample is where its worker keeps its sockets."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return zlib.crc32(str(current_process()._config.get("tempdir")).encode())


def test_workers_keep_their_sockets_in_the_folder_of_this_process():
    batches = Feed(dataset=Folders(), batch_size=2, workers=2).epochs()
    found = {int(each) for batch in itertools.islice(batches, 2) for each in batch}
    batches.close()
    assert found == {zlib.crc32(get_temp_dir().encode())}
