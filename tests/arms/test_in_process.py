"""An arm in this process: same bits whatever steps beside it, everything undone afterwards."""
# ruff: noqa: NPY002  user code draws from NumPy's global state, so the tests do

import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from netdyno.arms.in_process import FIRST_STEPS, InProcessArm
from netdyno.errors import ArmError
from netdyno.measure.stopwatch import Reading
from netdyno.records.trial import Change
from netdyno.targets.workload import Workload

CHANNELS_LAST = (Change(id="channels-last"),)


def noisy(sample):
    picture, label = sample
    return picture + torch.randn(1) * np.random.rand() * random.random(), label


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * 36, 3)
        )


def pictures():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(64, 2, 8, 8, generator=generator), torch.randint(0, 3, (64,), generator=generator)


def workload(**settings):
    settings = {"model": Net, "train": pictures, "augment": noisy, "batch_size": 8, "name": "net"} | settings
    return Workload(**settings)


def losses(arm, steps):
    return arm.turn(steps).losses


def test_two_arms_in_turns_draw_what_each_would_draw_alone():
    with InProcessArm(workload(), seed=3) as alone:
        expected = losses(alone, 5)
    with InProcessArm(workload(), seed=3) as one, InProcessArm(workload(), seed=3) as other:
        taken: dict[str, tuple[float, ...]] = {"one": (), "other": ()}
        for steps in (2, 1, 2):
            taken["other"] += losses(other, steps)
            torch.randn(7)
            random.random()
            taken["one"] += losses(one, steps)
    assert taken["one"] == expected
    assert taken["other"] == expected


def test_the_labs_own_random_stream_is_left_alone():
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = torch.rand(1).item(), np.random.rand(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    arm = InProcessArm(workload(), seed=3)
    arm.turn(2)
    arm.memory()
    arm.close()
    assert (torch.rand(1).item(), np.random.rand(), random.random()) == expected


def test_sides_fed_alike_have_one_checksum_and_other_seeds_another():
    with (
        InProcessArm(workload(), seed=3) as control,
        InProcessArm(workload(), CHANNELS_LAST, seed=3) as treatment,
        InProcessArm(workload(), seed=4) as stranger,
    ):
        assert control.checksum() == treatment.checksum()
        assert control.checksum() != stranger.checksum()


def test_a_batch_changed_in_place_by_the_model_has_the_checksum_of_what_was_loaded():
    def spoiling(model, batch):
        batch[0].zero_()
        return model(batch[0])

    with InProcessArm(workload(), seed=3) as clean, InProcessArm(workload(forward=spoiling), seed=3) as spoilt:
        assert clean.checksum() == spoilt.checksum()


def test_a_turn_says_where_the_time_went():
    with InProcessArm(workload(), seed=0) as arm:
        turn = arm.turn(4)
    assert turn.steps == 4
    assert len(turn.losses) == 4
    assert {"data", "forward", "backward", "optimizer"} <= set(turn.phases)
    assert "checksum" not in turn.phases
    assert sum(split.wall for split in turn.phases.values()) == pytest.approx(turn.time.wall)


class Dear(nn.Module):
    """Advances a clock: 5 s in its first forward pass, 1 s in each later one."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.layer, self.calls = clock, nn.Linear(2, 1), 0

    def forward(self, rows):
        self.clock.now += 5_000_000_000 if self.calls == 0 else 1_000_000_000
        self.calls += 1
        return self.layer(rows)


class Standing:
    now = 0

    def __call__(self):
        return Reading(self.now, self.now, 0)


def test_setup_is_what_the_first_steps_took_beyond_a_normal_one():
    clock = Standing()
    rows = lambda: (torch.randn(32, 2), torch.randn(32, 1))
    with InProcessArm(workload(model=lambda: Dear(clock), train=rows, augment=None), seed=0, clock=clock) as arm:
        assert arm.setup_s == pytest.approx(4.0)
        assert arm.turn(2).per_step == pytest.approx(1.0)


def test_changes_are_in_force_until_the_arm_is_closed():
    kept: list[Net] = []

    def made():
        kept.append(Net())
        return kept[-1]

    arm = InProcessArm(workload(model=made), CHANNELS_LAST, seed=0)
    weight = kept[0][0].weight
    arm.turn(1)
    inside = weight.stride()
    arm.close()
    arm.close()
    assert inside != weight.stride()
    assert weight.is_contiguous()


def test_saved_activations_and_state_are_counted_to_the_byte():
    model = lambda: nn.Sequential(nn.Linear(10, 20, bias=False), nn.Sigmoid(), nn.Linear(20, 1, bias=False))
    rows = lambda: (torch.randn(64, 10), torch.randn(64, 1))
    adam = lambda parameters: torch.optim.Adam(parameters, lr=1e-3)
    with InProcessArm(workload(model=model, train=rows, augment=None, optimizer=adam), seed=0) as arm:
        memory = arm.memory()
    parameters = 10 * 20 + 20
    # Parameters, gradients, two moments each; one step counter per parameter tensor.
    assert memory.state == 4 * (4 * parameters + 2)
    # Kept for backward: the sigmoid's output and the prediction (for the loss), 8 rows each; not the batch itself.
    assert memory.activations == 4 * 8 * (20 + 1)
    assert memory.peak is None


def test_counting_memory_is_an_ordinary_training_step():
    with InProcessArm(workload(), seed=3) as counted, InProcessArm(workload(), seed=3) as plain:
        counted.memory()
        expected = losses(plain, 3)[1:]
        assert losses(counted, 2) == expected


class Rotten(Dataset):
    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError(f"sample {index} is rotten")
        return torch.randn(2), torch.randn(1)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_raises_ends_the_arm_with_the_sentence_and_the_line(workers):
    job = workload(
        model=lambda: nn.Linear(2, 1),
        train=lambda: Rotten(60),
        val=lambda: Rotten(None),
        augment=None,
        loader={"shuffle": False, "num_workers": workers},
    )
    arm = InProcessArm(job, seed=0)
    with pytest.raises(ArmError) as caught:
        arm.turn(8)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "is rotten" in text)
    assert f"`ValueError: sample 60 is rotten` ({__file__}:{line})" in caught.value.says
    assert "Traceback" in caught.value.last_words
    with pytest.raises(ArmError, match="closed"):
        arm.turn(1)


def test_a_target_that_cannot_be_built_is_an_arm_error():
    with pytest.raises(ArmError, match="no weights"):
        InProcessArm(workload(model=lambda: (_ for _ in ()).throw(OSError("no weights"))), seed=0)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("tried 9 TB"), RuntimeError("DefaultCPUAllocator: not enough memory")],
)
def test_running_out_of_memory_is_said_in_words(error):
    def greedy(model, batch):
        raise error

    with pytest.raises(ArmError, match="ran out of memory"):
        InProcessArm(workload(forward=greedy), seed=0)


def test_a_step_that_hangs_is_ended_by_its_limit_and_says_where():
    calls = []

    def stuck(model, batch):
        calls.append(1)
        if len(calls) > FIRST_STEPS:
            time.sleep(60)
        return model(batch[0])

    arm = InProcessArm(workload(forward=stuck), seed=0, limit_s=60)
    arm._limit_s = 0.3
    with pytest.raises(ArmError, match=r"longer than its limit of 0\.3 s.*test_in_process\.py:\d+"):
        arm.turn(1)


def test_an_interrupt_passes_and_still_undoes_the_changes():
    net, calls = Net(), []

    def interrupted(model, batch):
        calls.append(1)
        if len(calls) > FIRST_STEPS:
            raise KeyboardInterrupt
        return model(batch[0])

    arm = InProcessArm(workload(model=lambda: net, forward=interrupted), CHANNELS_LAST, seed=0)
    with pytest.raises(KeyboardInterrupt):
        arm.turn(1)
    assert net[0].weight.is_contiguous()


class Counted(Dataset):
    """Counts every sample read, by whichever process, in shared memory."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        self.count += 1
        return torch.zeros(2), torch.zeros(1)


def test_loader_workers_read_nothing_between_turns():
    count = torch.zeros(1, dtype=torch.int64).share_memory_()
    job = workload(
        model=lambda: nn.Linear(2, 1),
        train=lambda: Counted(count),
        augment=None,
        # So deep a queue that the workers would go on reading for seconds.
        loader={"num_workers": 2, "prefetch_factor": 5000},
    )
    with InProcessArm(job, seed=0) as arm:
        for _ in range(2):
            arm.turn(2)
            time.sleep(0.05)
            before = count.item()
            time.sleep(0.2)
            assert count.item() == before
        # They go on as soon as they get a core while a turn lasts.
        assert eventually(lambda: arm.turn(2) and count.item() > before)


def test_closing_ends_frozen_loader_workers():
    job = workload(loader={"num_workers": 2, "persistent_workers": True})
    arm = InProcessArm(job, seed=0)
    arm.turn(1)
    workers = arm._batches.workers()
    assert len(workers) == 2
    arm.close()
    assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)


def test_workers_of_a_later_epoch_are_frozen_too():
    arm = InProcessArm(workload(loader={"num_workers": 2}), seed=0)
    first = set(arm._batches.workers())
    arm.turn(8)
    second = arm._batches.workers()
    assert len(second) == 2
    assert not first & set(second)
    # A stop signal counts when the process would next run: at once, but not before this line.
    assert eventually(lambda: [state(worker) for worker in second] == ["T", "T"])
    arm.close()


def state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def eventually(holds):
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()
