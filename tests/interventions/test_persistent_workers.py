"""What it is worth to keep workers from epoch to epoch."""

from dataclasses import replace

import pytest

from interventions.specimens import IMAGES, WORKED, facts, profile, stepped, timeline
from netdyno.interventions.persistent_workers import PersistentWorkers


def test_without_workers_there_is_nothing_to_keep():
    assert "no loader workers" in PersistentWorkers().refuses(IMAGES.fresh())


def test_workers_that_stay_are_left_alone():
    subject = WORKED.fresh()
    subject = replace(subject, feed=replace(subject.feed, persistent_workers=True))
    assert PersistentWorkers().refuses(subject) == "the workers stay already"


@pytest.mark.parametrize(
    ("start_s", "samples", "low", "high"),
    [
        (0.1, 800, 0.05 / 1.05, 0.095 / 1.095),  # a hundred steps of 10 ms
        (0.1, 80, 0.05 / 0.15, 0.095 / 0.195),  # short epochs: the start is half of it
        (1.0, 800, 0.5 / 1.5, 0.95 / 1.95),
    ],
)
def test_the_gain_is_the_start_of_workers_over_the_epoch(start_s, samples, low, high):
    behind = profile(workers=2, epoch_start_s=start_s, samples=samples, batch_size=8)
    prediction = PersistentWorkers().predicts(facts(timeline(forward=10), behind))
    assert prediction.low == pytest.approx(low)
    assert prediction.high == pytest.approx(high)


def test_a_long_epoch_gains_nothing_that_could_be_seen():
    behind = profile(workers=2, epoch_start_s=0.1, samples=8 * 10**5, batch_size=8)
    assert PersistentWorkers().predicts(facts(timeline(forward=10), behind)) is None


def test_what_was_not_measured_is_said_to_be_a_guess():
    prediction = PersistentWorkers().predicts(facts(timeline(forward=10), profile(workers=0)))
    assert "not measured here" in prediction.why


def test_an_epoch_of_unknown_length_is_not_guessed_at():
    behind = profile(workers=2, batch_size=0, dataset_bytes=None)
    assert PersistentWorkers().predicts(facts(timeline(forward=10), behind)) is None


def test_the_order_of_samples_stays_the_same_over_epochs():
    with PersistentWorkers().applied(WORKED.fresh()) as subject:
        kept = stepped(subject, 14)  # an epoch has six steps
    assert kept == stepped(WORKED.fresh(), 14)
