"""Bursts of calls under a clock of their own: what is counted, what is left out, and who waited."""

import pytest

from netdyno.measure import latency
from netdyno.measure.stopwatch import Bystanders, Reading


class Time:
    """A clock that calls move: by running, by waiting for a core, by being blocked."""

    def __init__(self):
        self.running = self.waiting = self.blocked = 0

    def __call__(self):
        return Reading(self.running + self.waiting + self.blocked, self.running, self.waiting)

    def pass_(self, *, running=0, waiting=0, blocked=0):
        self.running += int(running * 1e9)
        self.waiting += int(waiting * 1e9)
        self.blocked += int(blocked * 1e9)


def alone(monkeypatch, *, delay=0.0, busy=None):
    """A neighbourhood in which one worker thread waits `delay` seconds for a core in all."""
    readings = iter([Bystanders({7: (0.0, 0.0)}, 0.0, 0.0), Bystanders({7: (0.0, delay)}, 0.0, busy)])

    class Quiet:
        def read(self):
            return next(readings)

    monkeypatch.setattr(latency, "Neighbourhood", Quiet)


def test_the_first_calls_are_made_and_not_counted(monkeypatch):
    alone(monkeypatch)
    clock, made = Time(), []

    def call(i):
        made.append(i)
        clock.pass_(running=10.0 if i < latency.UNCOUNTED else 0.1)

    found = latency.burst(call, seconds=0.35, clock=clock, cpu_clock=lambda: clock.running / 1e9)
    assert made == list(range(latency.UNCOUNTED + 4))
    assert found.seconds == pytest.approx((0.1,) * 4)
    assert found.own == pytest.approx(0.1)
    assert found.cpu == pytest.approx(0.1)


def test_at_least_so_many_calls_are_made_however_slow(monkeypatch):
    alone(monkeypatch)
    clock = Time()
    found = latency.burst(lambda i: clock.pass_(running=5.0), seconds=0.1, least=3, clock=clock, cpu_clock=lambda: 0.0)
    assert len(found.seconds) == 3


def test_no_more_calls_are_made_than_asked_for(monkeypatch):
    alone(monkeypatch)
    clock = Time()
    found = latency.burst(lambda i: clock.pass_(running=0.001), seconds=10, most=5, clock=clock, cpu_clock=lambda: 0.0)
    assert len(found.seconds) == 5


def test_what_the_caller_waits_for_a_core_is_in_the_wall_time_and_not_its_own(monkeypatch):
    alone(monkeypatch)
    clock = Time()
    found = latency.burst(
        lambda i: clock.pass_(running=0.1, waiting=0.4), seconds=1.4, clock=clock, cpu_clock=lambda: 0.0
    )
    assert found.seconds == pytest.approx((0.5,) * 3)
    assert found.own == pytest.approx(0.1)


def test_what_a_worker_thread_waits_for_a_core_while_the_caller_is_blocked_is_not_its_own_either(monkeypatch):
    alone(monkeypatch, delay=1.2)
    clock = Time()
    found = latency.burst(lambda i: clock.pass_(blocked=0.5), seconds=1.4, clock=clock, cpu_clock=lambda: 0.0)
    assert found.own == pytest.approx((1.5 - 1.2) / 3)


def test_a_machine_that_others_use_says_how_much(monkeypatch):
    alone(monkeypatch, busy=2.0)
    monkeypatch.setattr(latency.host, "cores", lambda: 2)
    clock = Time()
    found = latency.burst(
        lambda i: clock.pass_(running=0.5), seconds=1.4, clock=clock, cpu_clock=lambda: (clock.running - 1e9) / 1e9
    )
    # 2 of 3 core seconds were spent, 1.5 of them here.
    assert found.foreign == pytest.approx(0.5 / 3.0)
