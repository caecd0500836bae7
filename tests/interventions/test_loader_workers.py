"""How many workers are raced, and what is expected of them."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from interventions.specimens import IMAGES, STREAM, WORDS, WORKED, facts, profile, stepped, timeline
from netdyno.interventions import loader_workers
from netdyno.interventions.loader_workers import LoaderWorkers, candidates, overlapped, usable_cores, work_per_batch
from netdyno.records.evidence import ThreadUse
from netdyno.records.measured import Split

BLOCKED = profile(sample=Split(running=1e-4, blocked=2e-3), augment=Split())
BUSY = profile(sample=Split(running=2e-3), augment=Split())


@pytest.fixture
def cores(monkeypatch):
    def are(count):
        monkeypatch.setattr(loader_workers, "usable_cores", lambda: count)

    are(2)
    return are


def threads(count):
    return ThreadUse(
        torch_threads=count, interop_threads=1, cores=4, workers=0, worker_threads=0, waiting_share=0, others_share=0
    )


@pytest.mark.parametrize(
    ("available", "evidence", "counts"),
    [
        (1, BUSY, [1]),
        (2, BUSY, [1, 2]),
        (4, BUSY, [1, 2, 4]),
        (6, BUSY, [1, 2, 4, 6]),
        (4, None, [1, 2, 4]),
        (1, BLOCKED, [1, 2, 4, 8]),
        (2, BLOCKED, [2, 4, 8, 16]),
        (16, BLOCKED, [16, 32, 64]),
    ],
)
def test_workers_go_up_to_the_cores_for_work_and_beyond_them_for_waiting(available, evidence, counts):
    assert candidates(available, evidence) == counts


def test_cores_are_those_that_this_process_may_use():
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("workers", "work", "rest", "cores", "busy", "seconds"),
    [
        # Nobody helps: one after the other.
        (0, Split(running=0.08), 0.02, 4, 1, 0.1),
        # Enough helpers: only the step's own work is left.
        (4, Split(running=0.04), 0.02, 8, 1, 0.02),
        # Too few: the workers set the pace.
        (2, Split(running=0.08), 0.02, 8, 1, 0.04),
        # More workers than cores don't make work quicker …
        (8, Split(running=0.08), 0.0, 2, 1, 0.04),
        # … but they do make waiting shorter.
        (8, Split(blocked=0.08), 0.0, 2, 1, 0.01),
        # A step that fills both cores has none to spare.
        (2, Split(running=0.04), 0.04, 2, 2, 0.06),
    ],
)
def test_the_slowest_of_step_workers_and_cores_sets_the_pace(workers, work, rest, cores, busy, seconds):
    found = overlapped(workers, work, rest=rest, cores=cores, threads=busy, bytes_of_batch=0)
    assert found == pytest.approx(seconds, abs=0.0011)  # handing a batch over costs up to a millisecond


def test_large_batches_are_dearer_to_hand_over():
    small, large = (
        overlapped(1, Split(running=0.001), rest=0.0, cores=4, threads=1, bytes_of_batch=size) for size in (0, 10**8)
    )
    assert large - small > 0.05


def test_waiting_samples_get_more_workers_than_cores_first(cores):
    evidence = facts(timeline(data=Split(running=0.8e-3, blocked=16e-3), forward=1, backward=1), BLOCKED, threads(1))
    first, *others = LoaderWorkers().settings(IMAGES.fresh(), evidence)
    assert first.workers == 8  # 16 more waits would not be seen behind what handing over costs
    assert {other.workers for other in others} == {2, 4, 16}


def test_on_two_cores_both_counts_are_raced_and_none_is_computed_away(cores):
    evidence = facts(timeline(data=16, forward=2, backward=2), BUSY, threads(1))
    assert {one.workers for one in LoaderWorkers().settings(IMAGES.fresh(), evidence)} == {1, 2}


def test_a_program_with_workers_is_also_tried_without(cores):
    assert [one.workers for one in LoaderWorkers().settings(WORKED.fresh(), {})] == [2, 0]


def test_few_settings_are_raced(cores):
    cores(64)
    assert len(LoaderWorkers().settings(IMAGES.fresh(), facts(BUSY))) == loader_workers.MOST_RACED


def test_a_step_that_hardly_waits_is_left_alone(cores):
    assert LoaderWorkers(2).predicts(facts(timeline(data=1, forward=99), BUSY)) is None


def test_cheap_samples_gain_nothing(cores):
    cheap = profile(sample=Split(running=1e-6), augment=Split())
    assert LoaderWorkers(2).predicts(facts(timeline(data=0.2, forward=0.8), cheap)) is None


def test_the_prediction_spans_what_the_cores_allow(cores):
    prediction = LoaderWorkers(2).predicts(facts(timeline(data=50, forward=50), BUSY, threads(2)))
    # At best the step needs one core, and reading hides behind it; at worst both, and nothing can hide.
    assert prediction.high == pytest.approx(1 - 0.0508 / 0.1, abs=0.01)
    assert prediction.low == pytest.approx(1 - (0.0508 + 0.1) / 2 / 0.1, abs=0.01)


def test_work_behind_workers_is_counted_sample_by_sample():
    behind = profile(workers=2, sample=Split(running=1e-3, blocked=1e-3), batch_size=8)
    assert work_per_batch(timeline(data=1), behind) == Split(running=8e-3, blocked=8e-3)


def test_workers_that_hurt_are_predicted_away(cores):
    cheap = profile(workers=2, sample=Split(running=1e-6), augment=Split())
    prediction = LoaderWorkers(0).predicts(facts(timeline(data=1, forward=1), cheap))
    assert prediction.high > 0.4


def test_the_programs_own_settings_stay():
    feed = replace(WORKED.fresh().feed, prefetch_factor=3, persistent_workers=True)
    with LoaderWorkers(2).applied(replace(WORKED.fresh(), feed=feed)) as subject:
        assert (subject.feed.workers, subject.feed.prefetch_factor, subject.feed.persistent_workers) == (2, 3, True)
    with LoaderWorkers(0).applied(replace(WORKED.fresh(), feed=feed)) as subject:
        assert (subject.feed.workers, subject.feed.prefetch_factor, subject.feed.persistent_workers) == (0, None, False)


def test_workers_make_the_same_batches_where_nothing_is_random():
    with LoaderWorkers(2).applied(WORDS.fresh()) as subject:
        assert stepped(subject, 3) == stepped(WORDS.fresh(), 3)


def test_a_stream_and_slices_get_no_workers():
    assert "stream" in LoaderWorkers().refuses(STREAM.fresh())
    direct = replace(WORDS.fresh(), feed=replace(WORDS.fresh().feed, direct=lambda chosen: chosen))
    assert "no loader" in LoaderWorkers().refuses(direct)


def test_narrow_shared_memory_is_refused_before_a_worker_dies_of_it(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=2, f_frsize=4096))
    assert "shared memory" in LoaderWorkers(4).refuses(IMAGES.fresh())
    assert LoaderWorkers(0).refuses(IMAGES.fresh()) is None
