"""What samples wait for, and what may be promised."""

import msgspec
import pytest

from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules.input_bound import input_bound, kind_of

WAITED = StepTimeline(
    steps=10,
    step=Split(running=0.050, blocked=0.050),
    phases={"data": Split(blocked=0.050), "forward": Split(running=0.050)},
)
LOADER = LoaderProfile(
    sample=Split(blocked=0.001),
    augment=Split(),
    collate=Split(),
    batch_bytes=4096,
    samples=1000,
    dataset_bytes=None,
    deterministic=True,
    stackable=True,
    workers=0,
    first_batch_s=0.05,
    epoch_start_s=0.05,
)


@pytest.mark.parametrize(
    ("running", "blocked", "kind"), [(1.0, 9.0, "I/O-bound"), (9.0, 1.0, "CPU-bound"), (1.0, 1.0, "mixed")]
)
def test_two_thirds_of_the_time_name_the_kind(running, blocked, kind):
    assert kind_of(Split(running=running, blocked=blocked)) == kind


def test_only_blocked_samples_without_workers_surely_overlap():
    assert input_bound(WAITED, LOADER).saves.low == pytest.approx(0.5)
    assert input_bound(WAITED, msgspec.structs.replace(LOADER, workers=2)).saves.low == 0.0
    assert input_bound(WAITED, None).saves.low == 0.0


def test_a_loader_that_was_read_is_believed_before_the_wait():
    computing = msgspec.structs.replace(LOADER, sample=Split(running=0.001))
    assert "CPU-bound" in input_bound(WAITED, computing).says


def test_a_loader_of_which_no_sample_was_read_leaves_the_wait_to_speak():
    unread = msgspec.structs.replace(LOADER, sample=Split())
    assert "I/O-bound" in input_bound(WAITED, unread).says
