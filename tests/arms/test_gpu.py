"""Two sides on one CUDA device: random streams apart, and the memory of each told from the other's."""

import gc

import pytest
import torch
from torch import nn

from netdyno.arms.in_process import InProcessArm
from netdyno.records.trial import Change
from netdyno.targets.workload import Workload

pytestmark = pytest.mark.gpu


def rows():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(64, 32, generator=generator), torch.randint(0, 3, (64,), generator=generator)


def workload(width=64, batch_size=8):
    return Workload(
        # Dropout on the device draws from the device's own generator.
        model=lambda: nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 3)),
        train=rows,
        batch_size=batch_size,
        name="dropped",
        device="cuda",
    )


def test_two_arms_in_turns_draw_the_masks_that_each_would_draw_alone():
    with InProcessArm(workload(), seed=3) as alone:
        expected = alone.turn(5).losses
    with InProcessArm(workload(), seed=3) as one, InProcessArm(workload(), seed=3) as other:
        taken = {"one": (), "other": ()}
        for steps in (2, 1, 2):
            taken["other"] += other.turn(steps).losses
            torch.rand(7, device="cuda")
            taken["one"] += one.turn(steps).losses
    assert taken["one"] == pytest.approx(expected, rel=1e-5)
    assert taken["other"] == pytest.approx(expected, rel=1e-5)


def test_the_labs_own_device_stream_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3, device="cuda").tolist()
    torch.manual_seed(5)
    with InProcessArm(workload(), seed=3) as arm:
        arm.turn(2)
        arm.memory()
    assert torch.rand(3, device="cuda").tolist() == expected


def test_the_peak_is_the_allocators_and_no_other_sides():
    with InProcessArm(workload(width=256, batch_size=32), seed=3) as alone:
        expected = alone.memory()
    ballast = torch.zeros(64 << 20, device="cuda")
    with InProcessArm(workload(width=256, batch_size=32), seed=3) as beside:
        found = beside.memory()
    del ballast
    assert found.peak == expected.peak
    assert found.peak >= found.state
    assert found.peak < 64 << 20
    assert (found.activations, found.state) == (expected.activations, expected.state)


def test_a_wider_model_has_a_higher_peak():
    with InProcessArm(workload(width=64), seed=3) as narrow, InProcessArm(workload(width=4096), seed=3) as wide:
        assert wide.memory().peak > narrow.memory().peak


def test_a_recipe_is_taken_back_and_its_memory_returned():
    levels = []
    for _ in range(2):  # libraries keep the workspace that they take at first
        with InProcessArm(workload(), (Change(id="bf16-autocast"),), seed=3) as arm:
            assert arm.turn(3).time.own > 0
            inside = torch.cuda.memory_allocated()
        gc.collect()
        levels.append(torch.cuda.memory_allocated())
    assert levels[0] == levels[1] < inside
