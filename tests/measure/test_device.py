"""Measuring on a CUDA device: phases by its own events, memory by its own allocator."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from netdyno.measure import ceilings as room
from netdyno.measure.ceilings import ceilings
from netdyno.measure.environment import describe
from netdyno.measure.memory import memory_account
from netdyno.measure.step import Stepper, one_batch
from netdyno.measure.stopwatch import DeviceStopwatch, stopwatch_for
from netdyno.targets.workload import Workload

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(128, 256, generator=generator), torch.randint(0, 4, (128,), generator=generator)


WIDE = Workload(
    name="wide",
    model=lambda: nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 4)),
    train=rows,
    batch_size=32,
    device="cuda",
)


def device_work(matrix, times=50):
    for _ in range(times):
        matrix = matrix @ matrix
    return matrix


@pytest.fixture
def matrix():
    matrix = torch.full((2048, 2048), 1e-4, device=CUDA)
    device_work(matrix, 2)
    torch.cuda.synchronize()
    return matrix


def test_a_cuda_device_gets_a_stopwatch_of_its_own():
    assert isinstance(stopwatch_for(CUDA), DeviceStopwatch)


def test_the_device_spends_its_time_in_the_phase_that_queued_the_work(matrix):
    watch = DeviceStopwatch(CUDA)
    watch.start("forward")
    device_work(matrix)
    watch.phase("data")
    watch.stop()
    spent = watch.device_phases()
    assert set(spent) == {"forward", "data"}
    assert spent["forward"] > 10 * spent["data"]


def test_a_turn_holds_all_its_device_work_and_the_wait_for_it_is_no_data_phase(matrix):
    watch = DeviceStopwatch(CUDA)
    watch.start("forward")
    device_work(matrix, 200)
    watch.phase("data")
    watch.stop()
    assert watch.total().wall >= 0.99 * watch.device_phases()["forward"]
    assert watch.phases()["data"].wall < watch.phases()["rest"].wall


def test_work_queued_before_the_start_belongs_to_no_phase(matrix):
    watch = DeviceStopwatch(CUDA)
    watch.start("all")
    device_work(matrix, 400)
    watch.stop()
    alone = watch.total().wall
    watch.clear()
    device_work(matrix, 400)
    watch.start("nothing")
    watch.stop()
    assert watch.total().wall < alone / 2
    assert watch.device_phases().keys() == {"nothing"}


def test_a_cleared_stopwatch_has_forgotten_its_events(matrix):
    watch = DeviceStopwatch(CUDA)
    watch.start("forward")
    watch.clear()
    watch.start("backward")
    device_work(matrix, 1)
    watch.stop()
    assert set(watch.device_phases()) == {"backward"}


def test_whole_steps_on_a_device_have_every_phase():
    subject = WIDE.fresh(0)
    stepper = Stepper(subject, stopwatch_for(subject.device))
    try:
        turn = stepper.take(3)
    finally:
        stepper.close()
    assert {"data", "copy", "forward", "loss", "backward", "optimizer", "rest"} <= set(turn.phases)
    assert {"forward", "backward", "optimizer"} <= set(stepper.stopwatch.device_phases())
    assert all(loss > 0 for loss in turn.losses)


def test_the_memory_account_is_that_of_the_allocator():
    subject = WIDE.fresh(0)
    batch = one_batch(subject)
    found = memory_account(subject, batch)
    assert found.parameters == found.gradients == 4 * (256 * 512 + 512 + 512 * 4 + 4)
    assert found.activations >= 32 * 512 * 4  # what ReLU keeps
    assert found.peak >= found.parameters + found.gradients
    assert found.capacity == torch.cuda.mem_get_info(CUDA)[1]
    assert found.parameters < found.available <= found.capacity


def test_a_larger_batch_has_a_higher_peak_and_the_same_parameters():
    small, large = WIDE.fresh(0), replace(WIDE, batch_size=128).fresh(0)
    one, other = memory_account(small, one_batch(small)), memory_account(large, one_batch(large))
    assert other.activations > 3 * one.activations
    assert other.peak > one.peak
    assert other.parameters == one.parameters


def test_ceilings_are_measured_on_the_device_and_leave_nothing_there(matrix, monkeypatch):
    monkeypatch.setattr(room, "SIDES", (256, 2048))
    before = torch.cuda.memory_allocated(CUDA)
    found = ceilings(describe("cuda"))
    assert {"float32", "bfloat16", "float64"} <= set(found.matmul)
    assert found.bandwidth > 0
    assert torch.cuda.memory_allocated(CUDA) == before


def test_the_environment_says_which_device_and_driver():
    found = describe("cuda")
    assert torch.cuda.get_device_name(CUDA) in found.device
    assert found.driver is not None
    assert str(torch.version.cuda) in found.driver
    assert found.id != describe("cpu").id
