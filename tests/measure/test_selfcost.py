"""What measuring costs, with readings whose cost is known."""

import pytest
import torch
from torch import nn

from netdyno.measure import selfcost
from netdyno.measure.selfcost import Weighed, overhead, stopwatch_cost
from netdyno.measure.stopwatch import Reading, Stopwatch
from netdyno.targets.workload import Workload


def workload(log=None):
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), batch_size=8, log=log, name="w"
    )


class Costly:
    """A clock whose own reading takes some time by itself."""

    def __init__(self, ms):
        self.ms, self.now = ms, 0.0

    def __call__(self):
        self.now += self.ms
        return Reading(round(self.now * 1e6), round(self.now * 1e6), 0)


def test_readings_are_weighed_in_time_on_a_core():
    ticks = iter([0, 3_000, 10_000, 11_000])
    weighed = Weighed(lambda: Reading(0, 0, 0), core_ns=lambda: next(ticks))
    weighed(), weighed()
    assert weighed.total() == pytest.approx(4e-6)
    weighed.clear()
    assert weighed.total() == 0.0


def test_every_reading_is_weighed():
    weighed = Weighed(lambda: Reading(0, 0, 0))
    watch = Stopwatch(weighed)
    watch.start("data")
    watch.phase("forward")
    watch.stop()
    assert len(weighed.costs) == 3
    assert min(weighed.costs) > 0


def test_the_cost_of_the_stopwatch_is_per_step():
    cost = stopwatch_cost(workload())
    assert 0 < cost < 0.01


def test_the_overhead_of_a_stopwatch_with_a_slow_clock_is_found():
    outer = Costly(0.0)

    def slow():
        outer.now += 1.0
        return outer()

    found = overhead(workload(), pairs=4, steps=3, clock=outer, watch=lambda: Stopwatch(slow))
    # Per turn one start, a stop, and per step six phases and one collate in data, which is two more.
    assert found.off == (0.0,) * 4
    assert all(seconds == pytest.approx((2 + 3 * 7) / 3 / 1e3) for seconds in found.on)


def test_the_sides_take_turns_in_random_order(monkeypatch):
    order = []

    def turn(stepper, steps, clock, *, watched):
        assert watched != isinstance(stepper.stopwatch, selfcost.SilentStopwatch)
        order.append("on" if watched else "off")
        return selfcost.Split(running=1.0)

    monkeypatch.setattr(selfcost, "_turn", turn)
    overhead(workload(), pairs=20, seed=0)
    pairs = [tuple(order[at : at + 2]) for at in range(0, 40, 2)]
    assert set(pairs) == {("on", "off"), ("off", "on")}
