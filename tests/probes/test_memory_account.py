"""The probe's account is that of one batch of the loader."""

import torch
from torch import nn

from netdyno.probes.memory_account import collect
from netdyno.targets.workload import Workload


def test_the_account_is_of_one_step_on_one_batch():
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    workload = Workload(
        model=lambda: nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), batch_size=8, name="w"
    )
    found = collect(workload.fresh(0))
    assert found.batch == 8 * (4 * 4 + 8)
    assert found.parameters == found.gradients == 4 * (4 * 2 + 2)
    assert found.peak >= found.parameters + found.optimizer_state
