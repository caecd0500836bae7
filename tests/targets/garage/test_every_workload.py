"""What every workload of the garage keeps."""

import copy
import itertools
import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from netdyno.errors import TargetError
from netdyno.measure.step import Stepper, evaluating, forward_loss
from netdyno.measure.stopwatch import Stopwatch
from netdyno.targets import garage
from netdyno.targets.feed import checksum
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload, load

# Enough for each to have learnt something; the heavier ones learn more from each.
UPDATES = {"resnet": 12, "deep_activations": 8, "matmul": 3, "transformer": 6, "copybound": 5}


def fetched(name: str) -> Workload:
    try:
        return load(f"garage:{name}")
    except TargetError as error:
        pytest.skip(f"{error.because}; {error.hint}")


@pytest.fixture(params=sorted(garage.names()))
def workload(request: pytest.FixtureRequest) -> Workload:
    return fetched(request.param)


def validation_loss(workload: Workload, subject: Subject) -> float:
    """In training mode, on a copy: after so few updates, batch normalisation's running averages say nothing yet."""
    trial = replace(subject, model=copy.deepcopy(subject.model))
    _, val = workload.datasets()
    batches = workload.feed(val).evaluation().epochs()
    with torch.no_grad():
        losses = [forward_loss(trial, batch).item() for batch in itertools.islice(batches, 4)]
    batches.close()
    return sum(losses) / len(losses)


def test_each_says_in_a_line_what_it_is():
    for name, line in garage.names().items():
        assert line.endswith("."), name
        assert len(line) < 120, name


def test_listing_them_imports_none():
    code = "from netdyno.targets import garage; import sys; garage.names(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_it_learns(workload):
    subject = workload.fresh(seed=0)
    before = validation_loss(workload, subject)
    stepper = Stepper(subject, Stopwatch())
    turn = stepper.take(UPDATES.get(workload.name, 20))
    stepper.close()
    assert all(math.isfinite(loss) for loss in turn.losses)
    assert validation_loss(workload, subject) < before


def test_two_copies_with_one_seed_are_equal_and_fed_the_same(workload):
    fed = []
    for _ in range(2):
        subject = workload.fresh(seed=3)
        batches = subject.feed.epochs()
        fed.append(checksum([subject.model.state_dict(), next(batches)]))
        batches.close()
    assert fed[0] == fed[1]


def test_it_can_be_evaluated_with_one_sample(workload):
    subject = workload.fresh(seed=0)
    _, val = workload.datasets()
    batch = workload.collate([val[0]])
    with evaluating(subject):
        output = subject.forward(subject.callee, batch)
    assert len(output) == 1


def test_a_name_the_garage_lacks_is_answered_with_those_it_has():
    with pytest.raises(TargetError) as caught:
        load("garage:digit")
    assert "`digit`" in str(caught.value)
    assert "digits, lstm" in str(caught.value)


def test_no_name_is_answered_with_all_of_them():
    with pytest.raises(TargetError, match="does not say which"):
        load("garage")


def test_a_name_stands_for_the_same_workload_each_time():
    assert garage.workload("tiny") is load("garage:tiny")


def test_a_workload_that_needs_an_absent_package_says_which(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")

    monkeypatch.setattr(garage.importlib, "import_module", absent)
    with pytest.raises(TargetError) as caught:
        load("garage:tiny")
    assert caught.value.hint == "`pip install scikit-learn`"
