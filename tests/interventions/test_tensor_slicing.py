"""Batches cut from tensors are those of the loader, to the bit, or they are refused."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from interventions.specimens import IMAGES, PLAIN_IMAGES, STREAM, WORDS, Decoded, facts, profile, stepped, timeline
from netdyno.interventions import tensor_slicing
from netdyno.interventions.tensor_slicing import TensorSlicing
from netdyno.records.measured import Split
from netdyno.targets.samples import same


class Rows(Dataset):
    """Rows whose length a function gives."""

    def __init__(self, length, count=40):
        self.length = length
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((self.length(index),), float(index)), index


def fed_by(dataset, **changes):
    subject = WORDS.fresh()
    return replace(subject, feed=replace(subject.feed, dataset=dataset, **changes))


def padded(samples):
    """Pads to the longest of the batch: no row knows how long it will be."""
    rows = torch.nn.utils.rnn.pad_sequence([row for row, _ in samples], batch_first=True)
    return rows, torch.tensor([label for _, label in samples])


def centred(samples):
    """Takes the mean of the batch away: a row depends on its company."""
    rows = torch.stack([row for row, _ in samples])
    return rows - rows.mean(0), torch.tensor([label for _, label in samples])


def named(samples):
    return torch.stack([row for row, _ in samples]), [str(label) for _, label in samples]


def as_dict(samples):
    return {"rows": torch.stack([row for row, _ in samples]), "labels": torch.tensor([label for _, label in samples])}


@pytest.mark.parametrize(
    ("subject", "because"),
    [
        (IMAGES.fresh(), "random transform"),
        (STREAM.fresh(), "stream"),
        (fed_by(Rows(lambda index: 3 + index % 2)), "do not stack"),
        (fed_by(Rows(lambda index: 3 + index % 2), collate=padded), "different company"),
        (fed_by(Rows(lambda index: 3), collate=centred), "different company"),
        (fed_by(Rows(lambda index: 3), collate=named), "other than tensors"),
        (fed_by(Rows(lambda index: 3), direct=lambda chosen: chosen), "cut from tensors already"),
        (fed_by(Rows(lambda index: 3), extra={"batch_sampler": ()}), "sampler of its own"),
    ],
)
def test_what_cannot_be_cut_is_refused(subject, because):
    assert because in TensorSlicing().refuses(subject)


def test_data_that_change_are_refused():
    class Noise(Rows):
        def __getitem__(self, index):
            return torch.rand(3), index

    assert "read twice is not the same" in TensorSlicing().refuses(fed_by(Noise(lambda index: 3)))


def test_data_beyond_the_budget_are_refused(monkeypatch):
    monkeypatch.setattr(tensor_slicing, "free_memory", lambda: 1000)
    assert "the budget is" in TensorSlicing().refuses(WORDS.fresh())


@pytest.mark.parametrize(
    "feed",
    [
        WORDS.fresh(3).feed,
        PLAIN_IMAGES.fresh(3).feed,
        fed_by(Rows(lambda index: 3), collate=as_dict).feed,
        fed_by(Subset(TensorDataset(torch.arange(30.0), torch.arange(30)), list(range(29, 4, -1)))).feed,
        fed_by(Rows(lambda index: 3), shuffle=False, drop_last=False, batch_size=7).feed,
        fed_by(Rows(lambda index: 3, count=600), batch_size=50).feed,  # more than one chunk while filling
    ],
    ids=["tensors", "decoded", "a dict", "a subset", "in order, with a rest", "large"],
)
def test_slices_are_the_loaders_batches_to_the_bit_over_epochs(feed):
    subject = replace(WORDS.fresh(), feed=feed)
    assert TensorSlicing().refuses(subject) is None
    with TensorSlicing().applied(subject) as sliced:
        cut, collated = sliced.feed.epochs(), feed.epochs()
        pairs = list(itertools.islice(zip(cut, collated, strict=True), 2 * feed.steps_per_epoch + 1))
    assert all(same(one, other) for one, other in pairs)


def test_a_row_that_differs_where_nobody_looked_is_found_before_the_first_step():
    # Sixteen rows spread over the data are of one length; the longer one lies between them.
    odd = fed_by(Rows(lambda index: 4 if index == 1 else 3), collate=padded, batch_size=8)
    assert TensorSlicing().refuses(odd) is None
    with pytest.raises(ValueError, match="differs from the loader's"), TensorSlicing().applied(odd):
        pass


def test_training_on_slices_is_training_on_batches():
    with TensorSlicing().applied(PLAIN_IMAGES.fresh()) as subject:
        assert stepped(subject, 8) == stepped(PLAIN_IMAGES.fresh(), 8)


def test_every_sample_is_read_before_the_first_step_and_then_no_more():
    dataset = Decoded()
    subject = PLAIN_IMAGES.fresh()
    with TensorSlicing().applied(replace(subject, feed=replace(subject.feed, dataset=dataset))) as sliced:
        before = dataset.reads
        stepped(sliced, 8)
        assert dataset.reads == before


@pytest.mark.parametrize(
    ("evidence", "hopeful"),
    [
        ((timeline(data=30, collate=10, forward=60), profile(augment=Split())), True),
        ((timeline(data=1, forward=99), profile(augment=Split())), False),
        ((timeline(data=30, forward=70), profile(stackable=False)), False),
        ((timeline(data=30, forward=70), profile(iterable=True)), False),
    ],
)
def test_the_gain_is_all_of_reading_and_collating(evidence, hopeful):
    prediction = TensorSlicing().predicts(facts(*evidence))
    assert (prediction is not None) == hopeful
    if hopeful:
        assert prediction.high == pytest.approx(0.4 * 0.98)


def test_rows_on_a_device_of_their_own_are_offered_only_where_there_is_one():
    assert [one.where for one in TensorSlicing().settings(WORDS.fresh(), {})] == ["host"]
    elsewhere = replace(WORDS.fresh(), device=torch.device("cuda"))
    assert [one.where for one in TensorSlicing().settings(elsewhere, {})] == ["device", "host"]
    assert "CPU" in TensorSlicing("device").refuses(WORDS.fresh())
    assert "`disk`" in TensorSlicing("disk").refuses(WORDS.fresh())
