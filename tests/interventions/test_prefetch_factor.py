"""How deep the queue may be, in bytes, and when depth can help."""

from dataclasses import replace

import pytest

from interventions.specimens import IMAGES, WORKED, facts, profile, timeline
from netdyno.interventions import prefetch_factor
from netdyno.interventions.prefetch_factor import PrefetchFactor, in_flight
from netdyno.records.measured import Split
from netdyno.targets.samples import batch_bytes


def test_bytes_under_way_are_workers_times_factor_times_batch():
    assert in_flight(8, 3, 10**6) == 24 * 10**6


def test_without_workers_nothing_prefetches():
    assert "there are none" in PrefetchFactor().refuses(IMAGES.fresh())


@pytest.mark.parametrize(("factor", "fits"), [(1, True), (2, True), (3, False), (4, False)])
def test_what_is_under_way_stays_within_the_budget(monkeypatch, factor, fits):
    subject = WORKED.fresh()
    one = batch_bytes(subject.feed)
    monkeypatch.setattr(prefetch_factor, "free_memory", lambda: 2.5 * one / prefetch_factor.MEMORY_SHARE)
    assert (PrefetchFactor(factor).refuses(subject) is None) == fits


@pytest.mark.parametrize(
    ("available", "workers", "one"), [(8e9, 8, 40e6), (2e9, 4, 1e6), (16e9, 2, 600e3)], ids=["large", "small", "tiny"]
)
def test_dividing_free_memory_by_the_batch_would_fill_it_once_per_worker(available, workers, one):
    widespread = max(2, int(available / one))
    assert in_flight(workers, widespread, one) > 0.99 * workers * available
    assert in_flight(workers, prefetch_factor.MOST, one) <= prefetch_factor.MEMORY_SHARE * available


def test_a_formula_that_fills_the_memory_is_not_believed(monkeypatch):
    # Free memory over the bytes of a batch would prefetch until the memory is full.
    assert "outside 1 to 4" in PrefetchFactor(50).refuses(WORKED.fresh())


@pytest.mark.parametrize(("now", "raced"), [(None, [4, 3, 1]), (2, [4, 3, 1]), (4, [3, 2, 1]), (1, [4, 3, 2])])
def test_every_other_factor_is_raced(now, raced):
    subject = WORKED.fresh()
    subject = replace(subject, feed=replace(subject.feed, prefetch_factor=now))
    assert [one.factor for one in PrefetchFactor().settings(subject, {})] == raced


def test_settings_beyond_the_budget_are_not_raced(monkeypatch):
    subject = WORKED.fresh()
    monkeypatch.setattr(
        prefetch_factor, "free_memory", lambda: 1.5 * batch_bytes(subject.feed) / prefetch_factor.MEMORY_SHARE
    )
    assert [one.factor for one in PrefetchFactor().settings(subject, {})] == [1]


@pytest.mark.parametrize(
    ("sample_s", "waits", "hopeful"),
    [
        (1e-3, 20, True),  # two workers need 4 ms a batch, the step 80: it waits now and then
        (20e-3, 20, False),  # they need 80 ms or more: the queue is empty at any depth
        (1e-3, 1, False),  # nothing is waited for
    ],
)
def test_depth_hides_jitter_and_not_slowness(sample_s, waits, hopeful):
    behind = profile(workers=2, sample=Split(running=sample_s + 1e-5), batch_size=8)
    prediction = PrefetchFactor().predicts(facts(timeline(data=waits, forward=80), behind))
    assert (prediction is not None) == hopeful
    if hopeful:
        assert prediction.low == 0
        assert prediction.high <= 0.05
