"""The profiler says nothing that nobody asked for."""

import os
import subprocess
import sys

from netdyno.measure.profiling import profiler

CODE = """
import torch
from torch import nn
from netdyno.measure.memory import memory_account
from netdyno.measure.step import one_batch
from netdyno.probes import op_table
from netdyno.targets.workload import Workload

rows = torch.randn(16, 4), torch.zeros(16, dtype=torch.int64)
subject = Workload(model=lambda: nn.Linear(4, 2), train=lambda: rows, batch_size=8, name="rows").fresh(0)
assert memory_account(subject, one_batch(subject)).peak > 0
assert op_table.collect(subject).ops
"""


def test_probes_that_profile_print_nothing():
    environment = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_level_that_somebody_chose_stays(monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "0")
    profiler()
    assert os.environ["KINETO_LOG_LEVEL"] == "0"
