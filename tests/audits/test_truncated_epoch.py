"""An epoch goes over all samples, once."""

import torch
from torch.utils.data import SubsetRandomSampler

from netdyno.audits import truncated_epoch as room
from netdyno.audits.truncated_epoch import truncated_epoch


def test_a_sampler_over_a_part_names_samples_that_never_come():
    finding = truncated_epoch(room._workload(room._rows(), sampler=range(20)))
    assert "20 of 60" in finding.says
    assert [one.index for one in finding.exhibits] == [20, 21, 22, 23]


def test_a_split_by_indices_is_a_suspicion_only():
    finding = truncated_epoch(room._workload(room._rows(), sampler=SubsetRandomSampler(range(30))))
    assert finding.confidence < 0.7


def test_copies_by_workers_are_counted_and_a_shared_stream_is_silent():
    finding = truncated_epoch(room._workload(room._Stream(shared=False), num_workers=2, shuffle=False))
    assert "120 samples of a stream that has 60" in finding.says
    assert truncated_epoch(room._workload(room._Stream(shared=True), num_workers=2, shuffle=False)) is None


class Boasting(room._Stream):
    def __len__(self):
        return 600


def test_a_stream_that_ends_before_its_length_is_found():
    assert "ends after 60" in truncated_epoch(room._workload(Boasting(shared=True), shuffle=False)).says


def test_the_last_batch_may_be_dropped():
    rows = torch.rand(63, 3), torch.arange(63) % 2
    assert truncated_epoch(room._workload(torch.utils.data.TensorDataset(*rows))) is None
