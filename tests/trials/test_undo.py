"""Taking a change back is checked, and the check can fail."""

import contextlib
from dataclasses import dataclass

import pytest
import torch

from netdyno import Workload
from netdyno.interventions import _base
from netdyno.records.trial import Change
from netdyno.trials.undo import not_undone

WORKLOAD = Workload(
    name="tiny",
    model=lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 2)),
    train=lambda: (torch.randn(64, 1, 8, 8), torch.zeros(64).long()),
)


@dataclass(frozen=True)
class Forgetful:
    """Halves the learning rate or the thread count, or moves a weight, and forgets to put it back."""

    what: str
    stage = 30

    @contextlib.contextmanager
    def applied(self, subject):
        if self.what == "lr":
            subject.optimizer.param_groups[0]["lr"] /= 2
        if self.what == "weight":
            subject.model[0].weight.data = subject.model[0].weight.data.clone()
        if self.what == "raise":
            subject.model.eval()
            yield subject
            subject.model.train()
            return
        yield subject


@pytest.fixture(autouse=True)
def forgetful():
    _base.catalogue()["forgetful"] = Forgetful
    yield
    del _base.catalogue()["forgetful"]


def test_channels_last_is_taken_back_to_the_byte():
    assert not_undone(WORKLOAD, Change(id="channels-last"), against=(), seed=0) is None


@pytest.mark.parametrize(("what", "names"), [("lr", "optimizer group 0"), ("weight", "0.weight"), ("raise", "module ")])
def test_what_is_forgotten_is_named(what, names):
    different = not_undone(WORKLOAD, Change(id="forgetful", settings={"what": what}), against=(), seed=0)
    assert names in different
