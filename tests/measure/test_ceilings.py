"""What the machine can do at best."""

import torch

from netdyno.measure import ceilings as room
from netdyno.measure.ceilings import ceilings, fastest
from netdyno.measure.environment import describe
from netdyno.measure.stopwatch import Reading

CPU = torch.device("cpu")


class Scripted:
    """A clock whose stretches between pairs of readings are written down: (running, waiting) in seconds."""

    def __init__(self, *stretches):
        self.stretches = list(stretches)
        self.now = (0.0, 0.0, 0.0)
        self.odd = False

    def __call__(self):
        if self.odd:
            running, waiting = self.stretches.pop(0) if len(self.stretches) > 1 else self.stretches[0]
            wall, ran, waited = self.now
            self.now = (wall + running + waiting, ran + running, waited + waiting)
        self.odd = not self.odd
        return Reading(*(round(value * 1e9) for value in self.now))


def test_the_fastest_of_several_calls_counts():
    clock = Scripted((0.3, 0), (0.1, 0), (0.2, 0), (0.4, 0))
    assert fastest(lambda: None, CPU, clock=clock, budget_s=0.5) == 0.1


def test_waiting_for_a_core_does_not_make_a_call_slow():
    clock = Scripted((0.1, 5.0))
    assert round(fastest(lambda: None, CPU, clock=clock, budget_s=0.1), 9) == 0.1


def test_the_first_call_only_warms_up():
    calls = []
    fastest(lambda: calls.append(1), CPU, clock=Scripted((1.0, 0)), budget_s=0.1)
    assert len(calls) == room.LEAST_RUNS + 1


def test_the_rate_is_operations_over_the_fastest_time(monkeypatch):
    monkeypatch.setattr(room, "SIDES", (64,))
    monkeypatch.setattr(room, "fastest", lambda *_, **__: 0.5)
    assert room.matmul_rate(torch.float32, CPU, clock=Scripted((1, 0))) == 2 * 64**3 / 0.5


def test_a_dtype_that_cannot_be_multiplied_has_no_rate(monkeypatch):
    def refuses(*_, **__):
        raise RuntimeError("not implemented for this type")

    monkeypatch.setattr(room, "fastest", refuses)
    assert room.matmul_rate(torch.float32, CPU, clock=Scripted((1, 0))) == 0.0


def test_ceilings_are_positive_meet_at_the_ridge_and_leave_the_thread_count_alone(monkeypatch):
    monkeypatch.setattr(room, "SIDES", (128,))
    monkeypatch.setattr(room.host, "last_level_cache", lambda: 1 << 20)
    before = torch.get_num_threads()
    here = describe()
    found = ceilings(here, threads=before + 1)
    assert torch.get_num_threads() == before
    assert found.threads == before + 1
    assert found.environment == here.id
    assert {"float32", "float64"} <= set(found.matmul)
    assert found.bandwidth > 0
    assert found.ridge("float32") == found.matmul["float32"] / found.bandwidth
