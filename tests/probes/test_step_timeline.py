"""The timeline closes: named phases, the rest, and the step as it was timed apart."""

import pytest
import torch
from torch import nn

from netdyno.measure.stopwatch import Reading
from netdyno.probes.step_timeline import closed, collect
from netdyno.records.measured import Split
from netdyno.targets.workload import Workload


class Passing:
    """Moves by 10 µs with each reading, and by what the workload's parts say."""

    def __init__(self):
        self.ms = 0.0

    def __call__(self):
        self.ms += 0.01
        return Reading(round(self.ms * 1e6), round(self.ms * 1e6), 0)


def subject(clock):
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))

    def loss(output, target):
        clock.ms += 4
        return nn.functional.cross_entropy(output, target)

    return Workload(
        model=lambda: nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), loss=loss, batch_size=8, name="w"
    ).fresh(0)


def test_the_account_closes_to_98_per_cent():
    clock = Passing()
    found = collect(subject(clock), steps=5, clock=clock)
    assert found.explained >= 0.98
    assert sum(split.wall for split in found.phases.values()) == pytest.approx(found.step.wall)


def test_phases_are_per_step():
    clock = Passing()
    found = collect(subject(clock), steps=5, clock=clock)
    assert found.steps == 5
    assert found.phases["loss"].running == pytest.approx(0.004, rel=0.02)
    assert found.share("loss") > 0.9


def test_real_steps_close_too():
    data = torch.randn(64, 512, generator=torch.Generator().manual_seed(0))
    made = Workload(
        model=lambda: nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 2)),
        train=lambda: (data, (data.sum(1) > 0).long()),
        batch_size=32,
        name="w",
    )
    found = collect(made.fresh(0), steps=4)
    assert found.explained >= 0.98
    assert found.own_overhead_s > 0


def test_what_no_phase_explains_is_named_rest():
    whole = Split(running=1.0, waiting=0.5, blocked=0.25)
    phases = closed(whole, {"data": Split(running=0.75, waiting=0.5)})
    assert phases["rest"] == Split(running=0.25, waiting=0.0, blocked=0.25)


def test_phases_that_exceed_the_whole_leave_no_negative_rest():
    assert closed(Split(running=1.0), {"data": Split(running=2.0)})["rest"] == Split()
