"""What can work side by side on the cores that are left."""

import msgspec
import pytest

from netdyno.records.evidence import ThreadUse
from netdyno.records.measured import Split
from netdyno.rules.idle_overlap import _case, idle_overlap

FREE = ThreadUse(
    torch_threads=1, interop_threads=1, cores=4, workers=0, worker_threads=1, waiting_share=0.0, others_share=0.0
)
COMPUTING = _case(data=Split(running=0.050), workers=0, sample=Split(running=0.001))


def test_samples_that_compute_need_a_core_that_is_free():
    assert idle_overlap(*COMPUTING, FREE).saves.high == pytest.approx(0.5)
    assert idle_overlap(*COMPUTING, msgspec.structs.replace(FREE, others_share=0.9)) is None


def test_nobody_knows_of_the_cores_without_a_look_at_them():
    assert idle_overlap(*COMPUTING, None) is not None


def test_the_longer_of_the_two_remains():
    timeline, loader = _case(data=Split(blocked=0.150), workers=0, sample=Split(blocked=0.001))
    assert idle_overlap(timeline, loader, None).saves.high == pytest.approx(0.25)


def test_a_sample_of_no_time_at_all_promises_nothing_for_sure():
    timeline, loader = _case(data=Split(blocked=0.050), workers=0, sample=Split())
    assert idle_overlap(timeline, loader, None).saves.low == 0.0
