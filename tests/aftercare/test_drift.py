"""Scripted streams: what gets worse raises within the samples that it should take, what stays raises as seldom as it says (ledger A-208)."""

import random

import pytest

from netdyno.aftercare.drift import Counted, Watch, delay, diverged


def stream(share, count, *, seed):
    chance = random.Random(seed)
    return [chance.random() < share for _ in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_false_detections_that_rise_from_3_to_6_per_cent_raise_within_three_times_the_usual_delay(seed):
    watch = Watch(usual=0.031)
    before, after = stream(0.031, 20_000, seed=seed), stream(0.057, 10_000, seed=100 + seed)
    assert watch.follow(before) is None
    found = watch.follow(after)
    assert found is not None
    assert found.at - 20_000 < 3 * delay(0.031, 0.057)
    assert found.since == pytest.approx(20_000, abs=2000)
    # Raised when chance has made it look worse than it is: the share since the change is a little high.
    assert 0.04 < found.share < 0.25
    assert f"{found.share:.2%} of the last {found.at - found.since} samples" in found.says


def test_a_stream_that_stays_raises_no_more_often_than_once_in_its_patience():
    patience, samples = 500, 60_000
    watch, chance, alarms = Watch(usual=0.05, patience=patience), random.Random(0), 0
    for _ in range(samples):
        alarms += watch.saw(chance.random() < 0.05) is not None
    # At most 120 on average; three deviations above.
    assert alarms <= samples / patience + 3 * (samples / patience) ** 0.5


def test_a_stream_that_gets_better_raises_nothing_and_is_still_watched():
    watch = Watch(usual=0.05)
    assert watch.follow(stream(0.01, 50_000, seed=1)) is None
    assert watch.follow(stream(0.15, 1_000, seed=2)) is not None


def test_a_long_good_time_does_not_make_it_slow():
    early, late = Watch(usual=0.05), Watch(usual=0.05)
    late.follow(stream(0.02, 100_000, seed=3))
    worse = stream(0.12, 5_000, seed=4)
    at_once, after = early.follow(worse), late.follow(worse)
    assert after.at - 100_000 == pytest.approx(at_once.at, abs=100)


def test_it_begins_anew_after_an_alarm():
    watch = Watch(usual=0.05)
    first = watch.follow([True] * 100)
    assert first.at < 10
    assert watch.follow([True] * 100).at == first.at


def test_the_offline_estimate_is_not_taken_for_the_truth():
    small, large = Watch.from_offline(Counted(3, 100)), Watch.from_offline(Counted(300, 10_000))
    assert small.usual > large.usual > 0.03
    assert Watch.from_offline(Counted(0, 100)).usual > 0
    assert Watch.from_offline(Counted(300, 10_000), margin=0.01).usual == pytest.approx(large.usual + 0.01)


def test_a_share_of_nothing_or_all_cannot_be_watched():
    with pytest.raises(ValueError, match="nothing to watch"):
        Watch(usual=0.0)


def test_the_delay_grows_as_the_change_shrinks():
    assert delay(0.05, 0.06) > delay(0.05, 0.1) > delay(0.05, 0.5)
    assert delay(0.05, 0.05) == float("inf")


@pytest.mark.parametrize(
    ("offline", "online", "ok"),
    [
        # Validation got better while false detections went from 3.1 to 5.7 %.
        (((80, 1000), (50, 1000)), ((310, 10_000), (570, 10_000)), False),
        (((80, 1000), (50, 1000)), ((310, 10_000), (250, 10_000)), True),
        (((50, 1000), (80, 1000)), ((310, 10_000), (570, 10_000)), True),
        (((80, 1000), (50, 1000)), ((3, 100), (5, 100)), None),
        (((8, 100), (7, 100)), ((310, 10_000), (570, 10_000)), None),
        (((8, 100), (7, 100)), ((570, 10_000), (310, 10_000)), True),
    ],
)
def test_divergence_is_both_told_and_opposite(offline, online, ok):
    found = diverged([Counted(*one) for one in offline], [Counted(*one) for one in online])
    assert found.ok is ok
    assert ("what is validated is not what is served" in found.says) is (ok is False)
