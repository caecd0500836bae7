from itertools import count

import pytest

from netdyno.aboard.account import (
    BACKWARD,
    DATA,
    EVALUATION,
    FORWARD,
    LOSS,
    NETDYNO,
    OPTIMIZER,
    SHORT_NS,
    SYNC,
    UNSEEN_NS,
    Account,
    Clocks,
)

US = 1000


class Fake:
    """Clocks that show one reading after another: wall, on a core, waiting for a core."""

    def __init__(self, readings):
        self.readings = iter(readings)
        self.now = None
        self.looks = 0
        self.looked = False

    def wall(self):
        if self.now is None or not self.looked:
            self.now = next(self.readings)
        self.looked = False
        return self.now[0]

    def running(self):
        if self.now is None:
            self.now = next(self.readings)
        self.looks, self.looked = self.looks + 1, True
        return self.now[1]

    def waiting(self):
        return self.now[2]


def account(*readings):
    fake = Fake(readings or ((t, t, 0) for t in count()))
    made = Account(Clocks(fake.wall, fake.running, fake.waiting))
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
    readings = [(0, 0, 0), (100, 120, 0), (110, 120, 90), (400, 200, 90), (410, 200, 990), (600, 210, 990)]
    made = account(*[tuple(US * clock for clock in reading) for reading in readings])
    made.push(FORWARD)
    made.pop()
    made.push(DATA)
    made.pop()
    made.switch(DATA)
    assert made.wall == 600 * US
    assert sum(total(made).values()) == 600 * US
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
    made = account((0, 0, 0), (5 * US, 1 * US, 0), (90 * US, 22 * US, 3 * US))
    made.push(FORWARD)
    made.switch(DATA)
    assert made.phases() == {"after netdyno": [5 * US, 0, 0], "forward": [17 * US, 3 * US, 65 * US]}


def test_being_off_a_core_for_an_instant_is_noted_when_there_is_more_of_it():
    step = SHORT_NS + UNSEEN_NS
    off = UNSEEN_NS * 2 // 3
    made = account((0, 0, 0), (step, step - off, off), (2 * step, 2 * (step - off), 2 * off))
    made.push(FORWARD)
    made.switch(DATA)
    assert made.phases() == {"after netdyno": [step, 0, 0], "forward": [step - 2 * off, 2 * off, 0]}


def test_the_kernel_is_not_asked_about_short_phases():
    fake = Fake((t, t, 0) for t in count(0, SHORT_NS // 2))
    made = Account(Clocks(fake.wall, fake.running, fake.waiting))
    made.start()
    looks = fake.looks
    made.push(FORWARD)
    made.pop()
    assert fake.looks == looks


def test_another_thread_brings_its_own_clocks():
    made = account()
    made.push(FORWARD)
    made.forget_thread()
    made.push(BACKWARD)
    assert not made.on
    made.start()
    assert made.on
    assert made.clocks is not None
    assert made.stack == []


def test_a_thread_that_is_put_aside_while_its_clock_is_read_waits_in_the_phase_that_ends():
    walls, waits = iter([0, 100 * US, 900 * US, 905 * US]), iter([0, 800 * US])
    made = Account(Clocks(lambda: next(walls), iter([0, 100 * US]).__next__, lambda: next(waits)))
    made.start()
    made.push(FORWARD)
    made.switch(DATA)
    assert made.phases() == {"after netdyno": [100 * US, 800 * US, 0], "forward": [5 * US, 0, 0]}


def test_a_phase_around_one_in_which_a_burst_began_ends_in_a_gap_that_exists():
    ticks = iter(range(0, 10_000_000, 100))
    account = Account(Clocks(lambda: next(ticks), lambda: 0, lambda: 0))
    account.start(OPTIMIZER)  # a burst begins at the end of an update, within a scaler's step
    account.leave(OPTIMIZER)  # the optimizer's
    account.pop()  # the scaler's, which was pushed before the burst
    account.push(OPTIMIZER)  # the scaler's update
    account.pop()
    assert sum(sum(parts) for parts in account.phases().values()) > 0


def _turns(made, now, forward, *, off=0):
    """One forward of that many ns, of which the thread was off a core for `off`; the rest of its update is short."""
    now["wall"] += US
    made.push(FORWARD)
    now["wall"] += forward
    now["off"] += off
    made.pop()


def _at_will(**settings):
    now, looks = {"wall": 0, "off": 0}, []
    clocks = Clocks(
        lambda: now["wall"], lambda: looks.append(now["wall"]) or now["wall"] - now["off"], lambda: now["off"]
    )
    made = Account(clocks)
    for name, value in settings.items():
        setattr(made, name, value)
    made.start()
    looks.clear()
    return made, now, looks


def test_a_phase_that_takes_what_it_took_when_it_ran_throughout_is_not_looked_at_again():
    made, now, looks = _at_will()
    for _ in range(10):
        _turns(made, now, 10 * SHORT_NS)
    assert len(looks) == 1
    assert made.phases()["forward"] == [100 * SHORT_NS, 0, 0]


def test_a_phase_that_takes_longer_than_it_did_is_looked_at_and_its_wait_is_its_own():
    made, now, _ = _at_will()
    for at in range(20):
        _turns(made, now, (40 if at % 5 == 4 else 10) * SHORT_NS, off=30 * SHORT_NS if at % 5 == 4 else 0)
    assert made.phases()["forward"][1] == 4 * 30 * SHORT_NS
    assert made.phases()["after forward"][1] == 0


def test_a_phase_that_was_off_a_core_is_presumed_nothing_any_more():
    made, now, looks = _at_will()
    _turns(made, now, 10 * SHORT_NS, off=UNSEEN_NS)
    for _ in range(3):
        _turns(made, now, 10 * SHORT_NS, off=UNSEEN_NS)
    assert len(looks) == 4
    assert made.phases()["forward"][1] == 4 * UNSEEN_NS


def test_in_a_race_every_phase_that_is_not_short_is_looked_at():
    made, now, looks = _at_will(exact=True)
    for _ in range(10):
        _turns(made, now, 10 * SHORT_NS)
    assert len(looks) == 10
