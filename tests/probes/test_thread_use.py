"""Threads against cores."""

import pytest
import torch
from torch import nn

from netdyno.measure.stopwatch import Reading
from netdyno.probes import thread_use as probe
from netdyno.probes.thread_use import Usage, collect, counts, waiting_share
from netdyno.records.measured import Split, Turn
from netdyno.targets.workload import Workload


class Threaded:
    """Time that passes with each forward pass, by the number of threads."""

    def __init__(self, ms_by_threads):
        self.ms_by_threads, self.ms = ms_by_threads, 0.0

    def __call__(self):
        return Reading(round(self.ms * 1e6), round(self.ms * 1e6), 0)

    def forward(self, model, batch):
        self.ms += self.ms_by_threads[torch.get_num_threads()]
        return model(batch[0])


def subject(clock):
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), forward=clock.forward, name="w"
    ).fresh(0)


def test_thread_counts_are_compared_and_set_back(monkeypatch):
    monkeypatch.setattr(probe.host, "cores", lambda: 2)
    clock = Threaded({1: 10.0, 2: 7.0})
    found = collect(subject(clock), clock=clock, steps=2, budget_s=0.2)
    assert found.step_seconds_by_threads == {"1": pytest.approx(0.010), "2": pytest.approx(0.007)}
    assert torch.get_num_threads() == found.torch_threads == 1
    assert (found.cores, found.workers, found.worker_threads) == (2, 0, 0)


def test_a_step_that_is_too_slow_to_compare_is_not_compared(monkeypatch):
    monkeypatch.setattr(probe.host, "cores", lambda: 2)
    clock = Threaded({1: 10_000.0, 2: 10_000.0})
    assert collect(subject(clock), clock=clock, steps=1, budget_s=1.0).step_seconds_by_threads == {}


def test_counts_double_up_to_the_cores():
    assert counts(present=2, cores=2) == [1, 2]
    assert counts(present=1, cores=1) == [1]
    assert counts(present=3, cores=6) == [1, 2, 3, 4, 6]


def turn(waiting, others):
    return Turn(steps=1, time=Split(running=1.0 - waiting, waiting=waiting), others_waiting=others)


def test_waiting_of_the_other_threads_counts():
    assert waiting_share(turn(0.1, 0.0), others=1) == pytest.approx(0.1)
    assert waiting_share(turn(0.1, 1.0), others=2) == pytest.approx(0.5)
    assert waiting_share(turn(0.1, 9.0), others=1) == 1.0
    assert waiting_share(turn(0.1, 9.0), others=0) == pytest.approx(0.1)


def test_the_share_of_others_leaves_out_our_own(monkeypatch):
    machine = iter([(100.0, 1000.0), (108.0, 1010.0)])
    own = iter([50.0, 53.0])
    monkeypatch.setattr(probe, "_machine_seconds", lambda: next(machine))
    monkeypatch.setattr(probe, "_own_seconds", lambda: next(own))
    assert Usage().others() == pytest.approx(0.5)


def test_no_time_means_no_share(monkeypatch):
    monkeypatch.setattr(probe, "_machine_seconds", lambda: (100.0, 1000.0))
    assert Usage().others() == 0.0
