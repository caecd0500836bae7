"""What is left of logging when it is done less often."""

import pytest

from netdyno.records.measured import Split
from netdyno.rules.logging_cost import _chores, _timeline, logging_cost

SLOW = _timeline(Split(blocked=0.010))


def test_the_log_of_every_step_can_nearly_vanish():
    assert logging_cost(SLOW, None).saves.low == pytest.approx(0.99 * 0.5)
    assert logging_cost(SLOW, _chores(100)).saves.low == pytest.approx(0.99 * 0.5)


def test_a_script_that_logs_every_tenth_step_can_save_nine_tenths_of_it():
    assert logging_cost(SLOW, _chores(10)).saves.low == pytest.approx(0.9 * 0.5)


def test_a_script_that_logs_every_hundredth_step_is_not_told_to():
    finding = logging_cost(SLOW, _chores(1))
    assert finding.saves.low == 0.0
    assert "hundredth" not in finding.fix


def test_it_names_the_line():
    finding = logging_cost(SLOW, _chores(100))
    assert "train.py:59" in finding.says
    assert finding.where.line == 59
