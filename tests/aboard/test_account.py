from itertools import count

import pytest

from netdyno.aboard.account import BACKWARD, DATA, EVALUATION, FORWARD, LOSS, NETDYNO, OPTIMIZER, SYNC, Account


def account(*readings):
    ticks = iter(readings) if readings else ((t, t, 0) for t in count())
    made = Account(lambda: next(ticks))
    made.start()
    return made


def total(made):
    return {name: sum(parts) for name, parts in made.phases().items()}


def test_time_between_calls_is_named_by_what_came_last():
    made = account()
    made.push(FORWARD)
    made.pop()
    made.push(BACKWARD)
    made.pop()
    assert total(made) == {"after netdyno": 1, "forward": 1, "after forward": 1, "backward": 1}


def test_an_inner_phase_is_taken_away_from_the_outer():
    made = account()
    made.push(OPTIMIZER)
    made.push(FORWARD)
    made.pop()
    made.pop()
    assert total(made) == {"after netdyno": 1, "optimizer": 2, "forward": 1}


def test_phases_and_gaps_add_up_to_the_wall_time_whatever_the_clocks_say():
    made = account((0, 0, 0), (10, 12, 0), (11, 12, 9), (40, 20, 9), (41, 20, 99), (60, 21, 99))
    made.push(FORWARD)
    made.pop()
    made.push(DATA)
    made.pop()
    made.switch(DATA)
    assert made.wall == 60
    assert sum(total(made).values()) == 60
    assert all(part >= 0 for parts in made.phases().values() for part in parts)


def test_gaps_of_an_evaluation_are_evaluation_until_training_goes_on():
    made = account()
    made.push(EVALUATION)
    made.pop()
    made.aside(SYNC)
    made.pop()
    made.push(DATA)
    made.pop()
    made.switch(DATA)
    assert total(made) == {"after netdyno": 1, "evaluation": 4, "data": 1, "after data": 1}


def test_a_loss_beside_the_work_has_its_own_phase():
    made = account()
    made.aside(LOSS)
    made.pop()
    assert total(made) == {"after netdyno": 1, "loss": 1}


def test_our_own_time_ends_as_the_phase_in_which_it_came():
    made = account()
    made.push(OPTIMIZER)
    made.switch(NETDYNO)
    made.leave(OPTIMIZER)
    made.switch(DATA)
    assert total(made) == {"after netdyno": 1, "optimizer": 1, "netdyno": 1, "after optimizer": 1}


def test_nothing_is_counted_while_it_is_off():
    made = account()
    made.push(FORWARD)
    made.stop()
    made.push(BACKWARD)
    made.pop()
    assert made.wall == 2


@pytest.mark.parametrize("phase", [FORWARD, DATA])
def test_what_an_exception_left_on_can_be_given_up(phase):
    made = account()
    made.push(OPTIMIZER)
    made.push(phase)
    made.unwind(1)
    made.leave(OPTIMIZER)
    assert made.stack == []


def test_a_short_phase_is_taken_to_have_run_and_a_longer_one_makes_up_for_it():
    full = iter([(0, 0, 0), (40_000, 22_000, 3_000)])
    made = Account(lambda: next(full))
    made.start()
    walls = iter([5_000, 40_000])
    made.wall_ns = lambda: next(walls)
    made.push(FORWARD)
    made.switch(DATA)
    assert made.phases() == {"after netdyno": [5_000, 0, 0], "forward": [17_000, 3_000, 15_000]}
