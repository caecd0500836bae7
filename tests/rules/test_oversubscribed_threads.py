"""A measured better count against mere crowding."""

from netdyno.records.evidence import ScriptTrace
from netdyno.rules.oversubscribed_threads import _timeline, _use, fewer_and_faster, oversubscribed_threads


def test_the_fastest_smaller_count_is_proposed():
    use = _use(threads=4, _1=0.012, _2=0.008, _4=0.010)
    assert fewer_and_faster(use).threads == 2


def test_a_larger_count_is_never_proposed():
    assert fewer_and_faster(_use(threads=2, _2=0.010, _4=0.001)) is None


def test_a_present_count_that_was_not_measured_proves_nothing():
    assert fewer_and_faster(_use(threads=2, _1=0.010)) is None


def test_crowding_beside_busy_neighbours_is_a_suspicion():
    assert oversubscribed_threads(_use(threads=2, waiting=0.5, others=0.5), _timeline(0.0), None).confidence < 0.7
    assert oversubscribed_threads(_use(threads=2, workers=4, waiting=0.3), _timeline(0.0), None).confidence > 0.7


SCRIPT = ScriptTrace(
    attached="", processes=1, updates=50, counted_by="optimizer", cycle=1, events=(), optimizers=(), span_s=100.0,
    own_s=0.0, unattributed=0.0,
)  # fmt: skip


def test_a_script_is_not_blamed_for_the_cores_that_others_take():
    assert oversubscribed_threads(_use(threads=2, waiting=0.5, others=0.5), _timeline(0.0), SCRIPT) is None


def test_a_script_with_more_threads_than_the_machine_has_cores_is_told():
    assert oversubscribed_threads(_use(threads=4, waiting=0.5, others=0.5), _timeline(0.0), SCRIPT) is not None
    assert oversubscribed_threads(_use(threads=2, workers=4, waiting=0.3), _timeline(0.0), SCRIPT).confidence > 0.7
