"""One question of optimisation, on trainings that take no time."""

from dataclasses import dataclass, field

import pytest

from learning.test_range_test import setup, sgd
from netdyno.errors import NetdynoError
from netdyno.learning import asked
from netdyno.learning.run import setup_of
from netdyno.progress import silent

SUBJECT = setup_of(setup(sgd).workload, updates=40)


@dataclass
class Clock:
    """A second more each time it is asked."""

    step: float = 1.0
    now: float = field(default=0.0)

    def __call__(self):
        self.now += self.step
        return self.now


def asking(**changed):
    told = {"setup": SUBJECT, "seeds": 3, "budget_s": 1e6, "listener": silent, "clock": Clock()}
    return asked.Asking(**{**told, **changed})


def test_as_many_choices_are_asked_as_the_budget_holds():
    assert asking(budget_s=100.0).affordable(20) == 5
    assert asking(budget_s=40.0).affordable(20) == 2


def test_a_budget_for_less_than_two_choices_is_refused():
    with pytest.raises(NetdynoError, match="two choices"):
        asking(budget_s=39.0).affordable(20)


def test_optimizers_that_are_not_asked_are_named():
    answer = asked.optimizer(asking(budget_s=13 * 2.0))
    assert len(answer.rows) == 2
    assert "not asked: " in answer.says
    assert "adafactor" in answer.says


def test_batch_sizes_are_an_interval_and_each_has_its_own_rate():
    answer = asked.batch(asking(budget_s=13 * 3.0))
    assert {row[0] for row in answer.rows} == {"24", "12", "48"}
    assert all(str(row[1]).startswith("factor") for row in answer.rows)
    assert "samples an update" in answer.says
    assert answer.curves[0].x == (12.0, 24.0, 48.0)


def test_the_rate_that_stands_is_among_those_that_race():
    answer = asked.rate(asking())
    assert 0.1 in {row[0] for row in answer.rows}
    assert [row[3] for row in answer.rows].count("best") == 1


def test_what_clipping_would_cut_is_told_of_each_threshold():
    answer = asked.clip(asking())
    assert {str(row[0]) for row in answer.rows} >= {"percentile 90", "norm 1"}
    assert all(0 <= row[2] <= 1 and 0 < row[3] <= 1 for row in answer.rows)
