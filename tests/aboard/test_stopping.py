"""The end of a ride: when it comes, where it is raised, and what is told before."""

import threading

import pytest

from netdyno.aboard import stopping
from netdyno.aboard.config import Config
from netdyno.aboard.stopping import MOST_RAISES, Stop, Stopper


class Ride:
    """A ride without a script."""

    def __init__(self, tmp_path, **wishes):
        self.config = Config(folder=str(tmp_path), **wishes)
        self.updates = 0
        self.told = []
        self.training_thread = None
        self.stream = type("Stream", (), {"path": str(tmp_path / "1.jsonl"), "process": -1})()
        self.stopper = Stopper(self.config, None, self)
        self.stopper._waiting = True  # nothing of torch is replaced here

    def stopped(self, reason, says):
        self.told.append((reason, self.updates))

    def update(self):
        self.updates += 1
        self.stopper.check()


@pytest.fixture
def now(monkeypatch):
    """A clock that stands until it is moved."""
    hands = [0.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: hands[0])
    return hands


def test_stop_is_raised_at_the_update_that_was_asked_for_and_told_before(tmp_path):
    ride = Ride(tmp_path, updates=3)
    ride.update()
    ride.update()
    with pytest.raises(Stop):
        ride.update()
    assert ride.told == [("updates", 3)]


def test_a_stop_that_is_swallowed_is_raised_five_times_more_and_told_once(tmp_path):
    ride = Ride(tmp_path, updates=1)
    raised = 0
    for _ in range(20):
        try:
            ride.update()
        except Stop:
            raised += 1
    assert raised == MOST_RAISES == 6
    assert ride.told == [("updates", 1)]


def test_time_that_is_over_stops_at_the_next_update(tmp_path, now):
    ride = Ride(tmp_path, updates=100, seconds=5.0)
    ride.update()
    now[0] = 5.0
    with pytest.raises(Stop):
        ride.update()
    assert ride.told == [("seconds", 2)]


def test_the_watchdog_waits_for_an_update_and_then_interrupts_once(tmp_path, now, monkeypatch):
    raised = []
    monkeypatch.setattr(stopping, "raise_in", raised.append)
    ride = Ride(tmp_path, seconds=5.0)
    for now[0] in (4.0, 5.5, 6.1, 7.0, 8.0):
        ride.stopper.look()
    assert raised == [threading.main_thread().ident]
    assert ride.told == [("seconds", 0)]


def test_the_thread_that_trains_is_the_one_that_is_interrupted(tmp_path, now, monkeypatch):
    raised = []
    monkeypatch.setattr(stopping, "raise_in", raised.append)
    ride = Ride(tmp_path, seconds=5.0)
    thread = threading.Thread(target=ride.update)
    thread.start()
    thread.join()
    now[0] = 7.0
    ride.stopper.look()
    assert raised == [thread.ident]


def test_a_launcher_whose_children_train_is_left_to_end_with_them(tmp_path, now, monkeypatch):
    raised = []
    monkeypatch.setattr(stopping, "raise_in", raised.append)
    (tmp_path / "2.jsonl").write_text('{"is": "tick", "iterations": 3, "updates": 3}\n')
    ride = Ride(tmp_path, seconds=5.0)
    now[0] = 100.0
    ride.stopper.look()
    assert (raised, ride.told) == ([], [])


def test_ranks_agree_on_the_update_after_the_first_ones_time_is_over(tmp_path, now, monkeypatch):
    first, second = Ride(tmp_path, seconds=5.0), Ride(tmp_path, seconds=5.0)

    def update(ride, rank):
        monkeypatch.setattr(stopping, "_place_in_world", lambda: (rank, 2))
        ride.update()

    update(first, 0)
    update(second, 1)
    now[0] = 6.0
    update(first, 0)  # says: the third
    update(second, 1)
    with pytest.raises(Stop):
        update(first, 0)
    with pytest.raises(Stop):
        update(second, 1)
    assert first.told == second.told == [("seconds", 3)]


def test_an_order_tells_the_other_ranks_first(tmp_path, monkeypatch):
    monkeypatch.setattr(stopping, "_place_in_world", lambda: (0, 2))
    ride = Ride(tmp_path)
    ride.update()
    monkeypatch.setattr(stopping, "current", ride.stopper)
    stopping.stop("ordered", "enough")
    with pytest.raises(Stop):
        ride.update()
    assert ride.told == [("ordered", 2)]


def test_an_uncaught_stop_is_a_good_end():
    assert issubclass(Stop, SystemExit)
    assert Stop().code is None


def test_stop_can_be_raised_in_a_thread_that_computes():
    seen, began = [], threading.Event()

    def work():
        try:
            began.set()
            while True:
                pass
        except Stop as stop:
            seen.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    assert stopping.raise_in(thread.ident)
    thread.join(30)
    assert len(seen) == 1
    assert not stopping.raise_in(2**40)
