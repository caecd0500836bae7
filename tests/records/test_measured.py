"""Whose fault waiting is decides whether it counts."""

import pytest

from netdyno.records.measured import Split, Turn


def turn(**beside):
    return Turn(steps=10, time=Split(running=1.0, waiting=3.0, blocked=1.0), **beside)


def test_waiting_for_strangers_is_left_out_of_a_steps_seconds():
    alone = turn(others_running=0.5, foreign_running=6.0)
    assert alone.per_step == pytest.approx(0.2)
    assert alone.waiting_share == pytest.approx(0.6)


def test_an_arm_with_more_threads_than_cores_pays_for_waiting_for_itself():
    crowded = turn(others_running=6.0, foreign_running=0.0, crowded=True)
    assert crowded.per_step == pytest.approx(0.5)
    assert crowded.waiting_share == 0.0


def test_a_crowded_arm_on_a_busy_machine_pays_for_its_part():
    both = turn(others_running=2.0, foreign_running=4.0, crowded=True)
    assert both.own_waiting == pytest.approx(1.0)
    assert both.per_step == pytest.approx(0.3)
    assert both.waiting_share == pytest.approx(0.4)
