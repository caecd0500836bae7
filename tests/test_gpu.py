"""The whole walk on a CUDA device, short."""

import pytest

from netdyno import bench
from netdyno.records.record import Plan
from netdyno.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WORK = '''
"""A target on the device."""

import torch
from torch import nn

from netdyno.targets.workload import Workload


def rows(count=512):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 64, generator=generator), torch.randint(0, 4, (count,), generator=generator)


Wide = Workload(
    model=lambda: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4)),
    train=rows,
    val=lambda: rows(64),
    batch_size=32,
    name="wide",
    device="cuda",
)
'''


def test_a_run_on_the_device_measures_tries_and_finishes(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    plan = Plan(budget_s=60.0, trial_s=10.0, only=("tensor-slicing", "pin-memory", "fused-optimizer"))
    record = bench.tune(f"{tmp_path}/work.py:Wide", plan, store=Store(tmp_path / "store"))
    assert record.finished
    assert record.failures == ()
    assert record.environment.device.startswith("cuda")
    assert record.environment.driver is not None
    assert record.ceilings.matmul["float32"] > 0
    assert record.baseline.peak_bytes > 0
    assert record.trials
    assert [trial.failed for trial in record.trials] == [None] * len(record.trials)
    assert all(trial.memory_control.peak for trial in record.trials)
    assert all(verdict.reasons for verdict in record.verdicts)
