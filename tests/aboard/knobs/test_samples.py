"""Caching and cutting of samples from outside: the same object, the same bits, and no change where it is not certain."""

import pytest
import torch
from torch.utils.data import DataLoader, Subset

from aboard.knobs.specimens import Decoded, Specimen, Stream, images, rows, table
from netdyno.aboard.knobs import cache_samples, tensor_slicing
from netdyno.aboard.knobs._base import made, refused
from netdyno.aboard.knobs._samples import changing, same

CACHE = {"id": "cache-samples", "settings": {}}
CUT = {"id": "tensor-slicing", "settings": {}}


def with_loader(loader, model=images):
    return Specimen(model, loader=loader)


def why(change, loader):
    return refused(with_loader(loader).view, change)


def test_an_iterator_that_runs_already_reads_from_the_cache_and_then_again_from_the_data():
    dataset = Decoded()
    one = Specimen(images, dataset=dataset)
    one.update()
    knob = made(one.view, CACHE)
    knob.on()
    reads = dataset.reads
    one.update(5)
    assert dataset.reads == reads
    assert isinstance(dataset, Decoded)
    assert one.loader.dataset is dataset
    knob.off()
    one.update()
    assert dataset.reads > reads


def test_nobody_can_spoil_the_cache():
    dataset = Decoded()
    one = Specimen(images, dataset=dataset)
    knob = made(one.view, CACHE)
    knob.on()
    dataset[3][0].zero_()
    assert dataset[3][0].any()
    knob.off()


def test_filling_the_cache_draws_nothing():
    before = torch.get_rng_state()
    one = Specimen(images, dataset=Decoded())
    state = torch.get_rng_state()
    made(one.view, CACHE).on()
    assert torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(before)


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (DataLoader(Decoded(noise=True)), "draws random numbers"),
        (DataLoader(Stream()), "stream"),
        (DataLoader(table()), "already has its samples in memory"),
        (DataLoader(Subset(table(), [1, 2])), "already has its samples in memory"),
        (DataLoader(Decoded(), num_workers=1), "workers"),
        (DataLoader([1, 2, 3]), "cannot be made to answer in another way"),
    ],
    ids=["noise", "stream", "tensors", "subset of tensors", "workers", "list"],
)
def test_what_cannot_be_cached_is_refused(loader, reason):
    assert reason in why(CACHE, loader)


def test_a_cache_that_would_take_too_much_memory_is_refused(monkeypatch):
    monkeypatch.setattr(cache_samples, "free_memory", lambda: 100)
    assert "the budget is" in why(CACHE, DataLoader(Decoded()))


def test_a_sample_that_differs_at_the_second_reading_is_noticed():
    class Counting(Decoded):
        def __getitem__(self, index):
            self.reads += 1
            return torch.tensor(self.reads), index

    assert changing(Counting()) == "a sample read twice is not the same"
    assert changing(Decoded()) is None


def test_a_cut_batch_is_the_stacked_one_to_the_bit():
    for dataset in (table(), Subset(table(), [5, 3, 8, 1, 0])):
        loader = DataLoader(dataset, batch_size=4)
        expected = list(loader)
        one = with_loader(loader, rows)
        knob = made(one.view, CUT)
        knob.on()
        assert same(list(loader), expected)
        knob.off()
        assert same(list(loader), expected)


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (DataLoader(Decoded()), "not rows of tensors"),
        (DataLoader(Stream()), "stream"),
        (DataLoader(table(), collate_fn=list), "a function of its own"),
        (DataLoader(table(), batch_size=None), "whole batches"),
        (DataLoader(table(), num_workers=1), "workers"),
    ],
)
def test_what_cannot_be_cut_is_refused(loader, reason):
    assert reason in (why(CUT, loader) or "")


def test_another_loader_with_a_way_of_its_own_over_the_same_data_is_met():
    dataset = table()
    other = DataLoader(dataset, collate_fn=list)
    assert "another loader" in why(CUT, DataLoader(dataset))
    assert other.dataset is dataset


def test_rows_stay_on_the_host():
    one = with_loader(DataLoader(table()), rows)
    assert "host" in tensor_slicing.refuses(one.view, {"where": "device"})
