from types import SimpleNamespace

import pytest

from netdyno.monitor import pulse
from netdyno.monitor.pulse import Pulse


class Kept:
    def __init__(self):
        self.told = []

    def tick(self, seconds):
        self.told.append(seconds)


def guarded(_where, call, *args):
    return call(*args)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(pulse.ranks, "beside", lambda _watch: lambda: None)
    wires, gauge = Kept(), Kept()
    watch = SimpleNamespace(gauges=(wires, gauge), wires=wires)
    return Pulse(watch), SimpleNamespace(guarded=guarded), wires, gauge


def test_gauges_wait_where_they_have_had_their_share_and_wires_do_not(watched):
    beside, observer, wires, gauge = watched
    beside._tick(observer, 1.0)
    beside.ticks_s = 1e9
    for _ in range(3):
        beside._tick(observer, 1.0)
    assert wires.told == [1.0] * 4
    assert gauge.told == [1.0]


def test_a_gauge_is_told_of_the_seconds_that_it_has_missed(watched):
    beside, observer, _, gauge = watched
    beside.ticks_s = 1e9
    beside._tick(observer, 1.0)
    beside._tick(observer, 1.5)
    beside.ticks_s = 0.0
    beside._tick(observer, 1.0)
    assert gauge.told == [3.5]
