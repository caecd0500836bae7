"""The four baselines, under a clock that only the workload moves."""

import time
from statistics import median

import msgspec
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from netdyno.measure import baselines as room
from netdyno.measure.baselines import baselines, data_run, dna, epoch_seconds, updates, whole_steps, zeroed
from netdyno.measure.resident import Level
from netdyno.measure.step import one_batch
from netdyno.measure.stopwatch import Reading, thread_clock
from netdyno.records.measured import Split
from netdyno.targets.workload import Workload


class Passing:
    """A clock that stands still until the workload's parts move it."""

    def __init__(self):
        self.wall = self.ran = self.waited = 0.0

    def run(self, ms):
        self.wall += ms
        self.ran += ms

    def wait(self, ms):
        self.wall += ms
        self.waited += ms

    def block(self, ms):
        self.wall += ms

    def __call__(self):
        return Reading(*(round(ms * 1e6) for ms in (self.wall, self.ran, self.waited)))


class Samples(Dataset):
    def __init__(self, read, count=64):
        self.read, self.count = read, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.read()
        return torch.full((4,), float(index)), torch.tensor(index % 2)


class Slow(nn.Linear):
    clock = None

    def forward(self, given):
        self.clock.run(7)
        return super().forward(given)


def workload(clock, **changes):
    def model():
        made = Slow(4, 2)
        made.clock = clock
        return made

    def loss(output, target):
        clock.run(2)
        return nn.functional.cross_entropy(output, target)

    settings = {
        "model": model,
        "train": lambda: Samples(lambda: clock.block(5)),
        "val": lambda: Samples(lambda: None),
        "loss": loss,
        "batch_size": 8,
        "name": "slow",
    }
    return Workload(**{**settings, **changes})


def test_a_delay_in_every_sample_is_found_between_batches():
    clock = Passing()
    found = data_run(workload(clock).fresh(0).feed, clock=clock, budget_s=1.0)
    assert found.first_s == pytest.approx(0.040)
    assert {round(split.own, 6) for split in found.between} == {0.040}
    assert all(split.blocked == pytest.approx(0.040) for split in found.between)


def test_a_real_delay_in_every_sample_is_recovered():
    data = Samples(lambda: time.sleep(0.005))
    feed = workload(Passing(), train=lambda: data).fresh(0).feed
    found = data_run(feed, clock=thread_clock(), budget_s=0.0)
    # The ledger's tolerance; waiting for a core is not in it, so it holds on a busy machine.
    assert median(split.own for split in found.between) == pytest.approx(8 * 0.005, rel=0.10)


def test_data_are_read_until_the_budget_or_the_batches_are_used_up():
    clock = Passing()
    feed = workload(clock).fresh(0).feed
    assert len(data_run(feed, clock=clock, budget_s=0.4).between) == 9  # and the first one
    assert len(data_run(feed, clock=clock, budget_s=100.0, batches=7).between) == 7
    assert len(data_run(feed, clock=clock, budget_s=0.0).between) == room.LEAST


def test_a_dataset_that_keeps_what_it_read_is_a_leak_and_a_clean_one_is_not():
    kept = []
    ballast = b"x" * 100_000  # enough to outgrow what earlier tests gave back to the allocator

    def leaking():
        kept.append(bytearray(ballast))

    feeds = [
        workload(Passing(), train=lambda read=read: Samples(read)).fresh(0).feed for read in (leaking, lambda: None)
    ]
    leak, clean = (data_run(feed, clock=_Even(), budget_s=0.8, batches=200) for feed in feeds)
    assert leak.slope == pytest.approx(8 * 100_000, rel=0.25)
    assert clean.slope == 0.0


class _Even:
    """Each reading is 2 ms after the last, so that memory is looked at evenly whatever the machine does."""

    def __init__(self):
        self.ms = 0

    def __call__(self):
        self.ms += 2
        return Reading(self.ms * 1_000_000, self.ms * 1_000_000, 0)


def test_phases_of_an_update_are_told_apart():
    clock = Passing()
    subject = workload(clock).fresh(0)
    found = updates(subject, one_batch(subject), clock=clock, budget_s=0.0)
    assert len(found) == room.LEAST
    assert all(phases["forward"].running == pytest.approx(0.007) for phases in found)
    assert all(phases["loss"].running == pytest.approx(0.002) for phases in found)


def test_whole_steps_are_the_sum_of_their_phases():
    clock = Passing()
    found = whole_steps(workload(clock).fresh(0), clock=clock, budget_s=0.0)
    assert {round(split.own, 6) for split in found.times} == {0.049}
    assert found.phases["data"].blocked == pytest.approx(0.040)
    assert found.phases["forward"].running == pytest.approx(0.007)
    assert found.peak_bytes > 0


def test_baselines_hold_together():
    clock = Passing()
    found = baselines(workload(clock), budget_s=0.5, clock=clock, environment="here")
    assert set(found.data.samples) == {0.04}
    assert median(found.forward.samples) == pytest.approx(0.007)
    assert median(found.forward_zeros.samples) == pytest.approx(0.007)
    assert median(found.backward.samples) == pytest.approx(0.002)
    assert median(found.step.samples) == pytest.approx(0.049)
    parts = sum(median(part.samples) for part in (found.data, found.forward, found.backward, found.optimizer))
    assert parts == pytest.approx(median(found.step.samples), rel=0.10)
    assert found.step.warmup
    assert found.step.items_per_sample == 8
    assert {found.data.environment, found.step.environment} == {"here"}


def test_waiting_for_a_core_is_told_and_not_counted():
    clock = Passing()

    def loss(output, target):
        clock.run(2), clock.wait(98)
        return nn.functional.cross_entropy(output, target)

    found = baselines(workload(clock, loss=loss), budget_s=0.1, clock=clock)
    assert median(found.backward.samples) == pytest.approx(0.002)
    assert found.backward.waiting_share == pytest.approx(0.98)


def test_the_hash_is_of_everything_else():
    clock = Passing()
    found = baselines(workload(clock), budget_s=0.1, clock=clock)
    assert found.hash == dna(found)
    assert dna(msgspec.structs.replace(found, epoch_s=found.epoch_s + 1)) != found.hash
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_random_state_is_left_alone():
    before = torch.get_rng_state()
    clock = Passing()
    baselines(workload(clock), budget_s=0.1, clock=clock)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_epoch_is_measured_when_the_steps_covered_one_and_estimated_otherwise():
    of_eight = workload(Passing())
    times = [Split(running=float(number)) for number in range(1, 11)]
    assert epoch_seconds(of_eight, times, first_s=0.0) == sum(range(1, 9))
    assert epoch_seconds(of_eight, times[:2], first_s=100.0) == 8 * 1.5


def test_workers_that_start_anew_make_an_epoch_longer():
    starting = workload(Passing(), loader={"num_workers": 2})
    staying = workload(Passing(), loader={"num_workers": 2, "persistent_workers": True})
    times = [Split(running=1.0)]
    assert epoch_seconds(starting, times, first_s=5.0) == 8 + 5
    assert epoch_seconds(staying, times, first_s=5.0) == 8


def test_a_batch_of_zeros_spares_what_may_not_be_zero():
    def forward(model, batch):
        if not batch[1].all():
            raise ValueError("a length of 0")
        return model(batch[0])

    data = TensorDataset(torch.ones(16, 4), torch.ones(16, dtype=torch.long))
    subject = workload(Passing(), train=lambda: data, val=lambda: data, forward=forward).fresh(0)
    zeros = zeroed(subject, one_batch(subject))
    assert not zeros[0].any()
    assert zeros[1].all()


def test_children_of_the_loader_count_for_memory(monkeypatch):
    seen = []
    monkeypatch.setattr(room, "held", lambda: seen.append(1) or 100)
    run = data_run(workload(Passing()).fresh(0).feed, clock=_Even(), budget_s=0.1)
    assert run.levels
    assert len(seen) == len(run.levels)
    assert isinstance(run.levels[0], Level)
