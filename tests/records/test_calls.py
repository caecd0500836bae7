"""How a trace of calls is followed."""

from netdyno.records.calls import Trace, TracedCall


def trace(*calls, root=None):
    return Trace(
        update=1, calls=tuple(TracedCall(name=name, inputs=tuple(inputs)) for name, *inputs in calls), root=root
    )


def test_the_origin_lies_behind_calls_that_only_move_values():
    told = trace(("softmax", -2), ("view", 0), ("permute", 1), ("cross_entropy", 2, -2))
    assert told.origin(2) == 0


def test_what_no_call_made_is_data_or_a_weight():
    told = trace(("view", -2), ("linear", 0, -1))
    assert told.origin(0) == -2
    assert told.origin(-1) == -1


def test_a_call_rests_on_what_led_to_it_only():
    told = trace(("linear", -2, -1), ("softmax", 0), ("cross_entropy", 0, -2))
    assert told.before(2) == {0, 2}
    assert told.users(0) == (1, 2)
