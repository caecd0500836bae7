"""Which modules are heard to run in training."""

import torch
from torch import nn

from netdyno.aboard.reach import Reach


def model():
    return nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})


def heard(run):
    two, reach = model(), Reach()
    reach.begin([two])
    run(two)
    reach.end()
    return reach.split(two, ["used.weight", "idle.weight"])


def test_a_module_that_ran_is_told_from_one_that_rests():
    assert heard(lambda two: two["used"](torch.zeros(1, 2))) == (["used.weight"], ["idle.weight"])


def test_what_runs_without_gradients_rests():
    with torch.no_grad():
        assert heard(lambda two: two["used"](torch.zeros(1, 2)))[0] == []


def test_nothing_is_heard_before_and_after():
    two, reach = model(), Reach()
    two["idle"](torch.zeros(1, 2))
    reach.begin([two])
    assert reach.listens
    reach.end()
    two["idle"](torch.zeros(1, 2))
    assert not reach.listens
    assert reach.split(two, ["idle.weight"])[0] == []


def test_a_compiled_model_is_left_alone():
    two, reach = model(), Reach()
    two["used"].compile(backend="eager")
    reach.begin([two])
    assert reach.ran is None
    assert not reach.listens
