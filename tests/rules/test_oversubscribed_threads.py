"""A measured better count against mere crowding."""

from netdyno.rules.oversubscribed_threads import _timeline, _use, fewer_and_faster, oversubscribed_threads


def test_the_fastest_smaller_count_is_proposed():
    use = _use(threads=4, _1=0.012, _2=0.008, _4=0.010)
    assert fewer_and_faster(use).threads == 2


def test_a_larger_count_is_never_proposed():
    assert fewer_and_faster(_use(threads=2, _2=0.010, _4=0.001)) is None


def test_a_present_count_that_was_not_measured_proves_nothing():
    assert fewer_and_faster(_use(threads=2, _1=0.010)) is None


def test_crowding_beside_busy_neighbours_is_a_suspicion():
    assert oversubscribed_threads(_use(threads=2, waiting=0.5, others=0.5), _timeline(0.0)).confidence < 0.7
    assert oversubscribed_threads(_use(threads=2, workers=4, waiting=0.3), _timeline(0.0)).confidence > 0.7
