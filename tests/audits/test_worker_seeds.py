"""Order and random numbers of the workload's own loader (ledger A-089)."""

from dataclasses import replace

import pytest
import torch

from netdyno.audits import worker_seeds as room
from netdyno.audits._specimens import specimen
from netdyno.audits.worker_seeds import fingerprints, worker_seeds
from netdyno.targets.workload import Workload


def feed(seed=0, **loader):
    rows = torch.rand(64, 3), torch.arange(64) % 2
    declared = Workload(model=lambda: torch.nn.Linear(3, 2), train=lambda: rows, batch_size=4, loader=loader)
    return declared.feed(declared.datasets()[0], seed=seed)


def test_the_same_seed_gives_the_same_order_and_epochs_differ():
    assert fingerprints(feed(1)) == fingerprints(feed(1))
    assert fingerprints(feed(1)) != fingerprints(feed(2))
    assert len(set(fingerprints(feed(1)))) == room.EPOCHS


def test_workers_draw_different_numbers_unless_they_are_seeded_alike():
    healthy = room._workload(num_workers=2)
    assert worker_seeds(healthy) is None
    assert "2 workers draw the same" in worker_seeds(room._workload(num_workers=2, worker_init_fn=room._constant)).says


def seeded_by_number(worker):
    import numpy as np

    np.random.seed(worker)  # noqa: NPY002


def test_epochs_that_draw_the_same_numbers_are_found():
    finding = worker_seeds(room._workload(num_workers=2, worker_init_fn=seeded_by_number))
    assert "each epoch draws" in finding.says


@pytest.mark.parametrize("workers", [1, 2])
def test_data_without_chance_are_silent(workers):
    rows = torch.rand(64, 3), torch.arange(64) % 2
    declared = Workload(
        model=lambda: torch.nn.Linear(3, 2), train=lambda: rows, batch_size=4, loader={"num_workers": workers}
    )
    assert worker_seeds(replace(specimen("table"), workload=declared)) is None
