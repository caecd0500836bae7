"""How long a turn shall be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.arms.base import steps_per_turn


def test_a_turn_is_at_least_as_long_as_asked():
    assert steps_per_turn(0.1, 0.25) == 3


def test_a_step_longer_than_the_turn_is_taken_once():
    assert steps_per_turn(2.0, 0.25) == 1


def test_workers_deliver_in_whole_rotations():
    assert steps_per_turn(0.1, 0.25, workers=4) == 4
    assert steps_per_turn(0.1, 0.45, workers=4) == 8


def test_rounding_costs_no_extra_rotation():
    assert steps_per_turn(0.1, 0.3) == 3


@pytest.mark.parametrize("step_s", [0.0, -1.0])
def test_a_step_too_short_for_the_clock_gives_one_rotation(step_s):
    assert steps_per_turn(step_s, 0.25, workers=2) == 2


@given(st.floats(1e-6, 100), st.floats(1e-3, 10), st.integers(0, 16))
def test_never_shorter_than_asked_and_never_a_rotation_too_long(step_s, least_s, workers):
    steps = steps_per_turn(step_s, least_s, workers=workers)
    cycle = max(1, workers)
    assert steps % cycle == 0
    assert steps * step_s >= least_s * (1 - 1e-6)
    assert steps == cycle or (steps - cycle) * step_s < least_s
