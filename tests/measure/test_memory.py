"""Where the memory of a step goes, against what is known beforehand and against what is measured from outside."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from netdyno.measure.memory import Allocation, activation_bytes, allocating, highest, memory_account, size_of
from netdyno.measure.step import one_batch, train_on
from netdyno.targets.workload import Workload

CPU = torch.device("cpu")


def subject(optimizer=torch.optim.AdamW, model=None, batch_size=32, width=256, **settings):
    data = torch.randn(128, width, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=model or (lambda: nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, 4))),
        train=lambda: (data, torch.randint(0, 4, (128,), generator=torch.Generator().manual_seed(1))),
        optimizer=lambda parameters: optimizer(parameters, **({"lr": 0.01} | settings)),
        batch_size=batch_size,
        name="small",
    ).fresh(0)


def account(what):
    return memory_account(what, one_batch(what))


def parts(found):
    return (
        found.parameters + found.buffers + found.gradients + found.optimizer_state
        + found.activations + found.workspace + found.batch
    )  # fmt: skip


@pytest.mark.parametrize(
    ("optimizer", "settings", "copies"),
    [
        (torch.optim.Adam, {}, 2),
        (torch.optim.AdamW, {}, 2),
        (torch.optim.SGD, {"momentum": 0.9}, 1),
        (torch.optim.SGD, {}, 0),
    ],
)
def test_the_state_of_an_optimizer_is_counted_exactly(optimizer, settings, copies):
    found = account(subject(optimizer, **settings))
    counters = 4 * 4 if optimizer is not torch.optim.SGD else 0  # one 4-byte step counter per parameter
    assert found.optimizer_state == copies * found.parameters + counters


def test_parameters_gradients_and_batch_are_counted_exactly():
    found = account(subject(batch_size=32))
    assert found.parameters == found.gradients == 4 * (256 * 512 + 512 + 512 * 4 + 4)
    assert found.batch == 32 * 256 * 4 + 32 * 8


def test_what_autograd_keeps_is_counted_exactly():
    # Of Linear, ReLU, Linear and cross-entropy: the ReLU's output once (it serves two nodes), the log-probabilities
    # and the loss's total weight. The input, the weights and the target are there anyway.
    assert activation_bytes(subject(batch_size=32), one_batch(subject(batch_size=32))) == 32 * 512 * 4 + 32 * 4 * 4 + 4


def test_activations_grow_with_the_batch_and_parameters_do_not():
    small, large = account(subject(batch_size=16)), account(subject(batch_size=64))
    assert large.activations == pytest.approx(4 * small.activations, rel=0.01)
    assert large.parameters == small.parameters


def test_tied_parameters_count_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.head = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 4)
            self.two.weight = self.one.weight

        def forward(self, inputs):
            return self.head(self.two(self.one(inputs)))

    assert account(subject(model=Tied)).parameters == 4 * (256 * 256 + 2 * 256 + 256 * 4 + 4)


def test_checkpointing_keeps_less():
    class Deep(nn.Module):
        def __init__(self, *, again):
            super().__init__()
            self.again = again
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(4)
            )
            self.head = nn.Linear(256, 4)

        def forward(self, inputs):
            for block in self.blocks:
                inputs = checkpoint(block, inputs, use_reentrant=False) if self.again else block(inputs)
            return self.head(inputs)

    kept, recomputed = (account(subject(model=lambda again=again: Deep(again=again))) for again in (False, True))
    assert recomputed.activations < 0.4 * kept.activations
    assert recomputed.peak <= kept.peak


@pytest.mark.parametrize("keep", [False, True])
def test_the_parts_add_up_to_the_measured_growth(keep):
    what = replace(subject(batch_size=64), set_to_none=not keep)
    found = account(what)
    assert parts(found) == pytest.approx(found.peak, rel=0.10)


def test_the_peak_is_what_a_step_reaches_by_the_allocators_events():
    what = subject()
    batch = one_batch(what)
    found = memory_account(what, batch)
    with allocating(CPU) as events:
        train_on(what, batch)
    persistent = found.parameters + found.buffers + found.optimizer_state + found.batch
    assert persistent + highest(events) == pytest.approx(found.peak, rel=0.01)


def test_allocations_are_seen_to_the_byte():
    with allocating(CPU) as events:
        first = torch.empty(1000)
        second = torch.empty(500, dtype=torch.float64)
        del first, second
    sizes = [event.size for event in events]
    assert sizes[:2] == [4000, 4000]
    assert sum(sizes) == 0
    assert highest(events) == 8000


def test_the_highest_level_of_no_events_is_none():
    assert highest([]) == 0
    assert highest([Allocation(1, -50)]) == 0


def test_views_count_their_storage_once():
    whole = torch.zeros(100)
    assert size_of([whole, whole[:10], whole.view(10, 10)]) == 400


def test_available_counts_what_the_subject_already_holds():
    found = account(subject())
    assert found.peak < found.available <= found.capacity
    assert 0 < found.pressure < 1


OUTSIDE = """
import torch
from torch import nn
torch.set_num_threads(1)
from netdyno.measure.memory import memory_account
from netdyno.measure.resident import PeakHeld, held
from netdyno.measure.step import one_batch, train_on
from netdyno.targets.workload import Workload
def model(): return nn.Sequential(*[nn.Linear(1500, 1500) for _ in range(6)], nn.Linear(1500, 2))
data = torch.randn(16, 1500), torch.randint(0, 2, (16,))
def workload(width): return Workload(
    model=(lambda: nn.Linear(1500, 2)) if width is None else model, train=lambda: data, val=lambda: data, batch_size=8, name="w")
small = workload(None).fresh(0)
train_on(small, one_batch(small)); train_on(small, one_batch(small))  # what torch itself needs, first
before = held(); peak = PeakHeld()
subject = workload(1500).fresh(0); batch = one_batch(subject)
for _ in range(3): train_on(subject, batch)
grown = peak() - before
print(grown, memory_account(subject, batch).peak)
"""


def test_the_account_agrees_with_the_growth_of_a_whole_process():
    # With a threshold of its own the C library hands every large block back at once: what it would keep in its heap
    # for the next one belongs to no part of a step.
    settings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", OUTSIDE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=settings)
    grown, peak = (int(word) for word in done.stdout.split())
    assert peak > 150 << 20
    assert grown == pytest.approx(peak, rel=0.10)
