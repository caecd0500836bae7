"""What `netdyno init` writes runs as it is."""

import math
import os
import subprocess
import sys

import pytest

from netdyno.measure.smoke import smoke
from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Stopwatch
from netdyno.targets.feed import Feed
from netdyno.targets.template import template
from netdyno.targets.workload import Workload, load


@pytest.fixture
def workload(tmp_path) -> Workload:
    file = tmp_path / "work.py"
    file.write_text(template(), encoding="utf-8")
    return load(f"{file}:Shapes")


def test_it_can_be_stepped(workload):
    stepper = Stepper(workload.fresh(), Stopwatch())
    turn = stepper.take(3)
    stepper.close()
    assert len(turn.losses) == 3
    assert all(math.isfinite(loss) for loss in turn.losses)


def test_it_passes_every_smoke_check(workload, tmp_path):
    checks = smoke(workload, folder=tmp_path)
    assert [check.says for check in checks if not check.ok] == []


def test_its_batch_transform_keeps_the_form_of_a_batch(workload):
    train, _ = workload.datasets()
    batch = next(Feed(dataset=train, batch_size=8).epochs())
    images, labels = workload.batch_augment(batch)
    assert images.shape == batch[0].shape
    assert images.dtype == batch[0].dtype
    assert labels is batch[1]


def test_it_shows_everything_a_workload_can_declare():
    for part in Workload.__dataclass_fields__:
        if part not in {"name", "steps", "collate"}:  # a name is given by the file; the other two are rarely needed
            assert f"{part}=" in template(), part


def test_it_is_a_program_that_python_runs(tmp_path):
    file = tmp_path / "work.py"
    file.write_text(template(), encoding="utf-8")
    subprocess.run([sys.executable, file], check=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"})
