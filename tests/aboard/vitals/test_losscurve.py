"""Losses are kept in few bins however long a run is, with what a constant answer would reach beside them."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from netdyno.aboard.config import Config
from netdyno.aboard.observe import Observer
from netdyno.aboard.vitals.losscurve import MOST_BINS, Bins, Rounds, Targets


def test_a_long_run_has_few_bins_and_loses_no_loss():
    bins = Bins()
    for number in range(10_000):
        bins.add(number, float(number), 0.1)
    told = bins.summary()
    assert MOST_BINS / 3 < len(told) <= MOST_BINS
    assert sum(each["count"] for each in told) == 10_000
    assert sum(each["count"] * each["loss"] for each in told) == sum(range(10_000))


def test_updates_that_nobody_listened_to_leave_a_hole():
    bins = Bins()
    for number in (*range(200), *range(5000, 5050), 9999):
        bins.add(number, 1.0, 0.1)
    told = bins.summary()
    assert sum(each["count"] for each in told) == 251
    assert bins.updates == 10_000
    assert told[0]["at"] == 0
    assert told[-1]["at"] > 9900


def call(name, output, target, **kwargs):
    return SimpleNamespace(name=name, input=output, target=target, kwargs=kwargs)


def test_chance_is_the_entropy_of_the_classes_that_were_seen():
    targets = Targets()
    targets.look(call("cross_entropy", torch.zeros(4, 3), torch.tensor([0, 0, 1, 1])))
    assert targets.chance == pytest.approx(math.log(2))


def test_chance_of_a_regression_is_the_variance():
    values = torch.tensor([1.0, 2.0, 3.0, 6.0])
    targets = Targets()
    targets.look(call("mse_loss", torch.zeros(4), values))
    assert targets.chance == pytest.approx(float(F.mse_loss(values.mean().expand(4), values)))


def test_nobody_knows_the_chance_of_a_smoothed_or_summed_loss():
    for settings in ({"reduction": "sum"}, {"label_smoothing": 0.1}):
        targets = Targets()
        targets.look(call("cross_entropy", torch.zeros(2, 3), torch.tensor([0, 1]), **settings))
        assert targets.chance is None


def test_a_round_is_weighted_by_its_batches():
    rounds = Rounds(None, "cross_entropy", trains=False)
    rounds.add(10, 1.0, 30, 15.0)
    rounds.add(10, 4.0, 10, 10.0)
    rounds.add(20, 1.0, 10, None)
    rounds.close()
    first, second = rounds.rounds
    assert (first["loss"], first["accuracy"], first["samples"]) == (1.75, 0.625, 40)
    assert (second["update"], second["accuracy"]) == (20, None)


class Arrived:
    """An event that has happened."""

    def query(self):
        return True


def watched_losses(*, passes, late):
    """The course of twenty updates; with `late`, losses are read as from a device."""
    torch.manual_seed(0)
    observer = Observer(Config(folder="", hz=0, vitals=True, warmup=2, census=False))
    if late:
        observer._read_loss = lambda loss: observer._late.append((observer.updates, loss.detach().clone(), Arrived()))
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    observer.apply()
    try:
        for _ in range(20):
            optimizer.zero_grad()
            for _ in range(passes):
                F.mse_loss(model(torch.randn(4, 3)), torch.ones(4, 1)).backward()
            optimizer.step()
        observer.account.stop()
        observer.vitals.over()
        return observer.vitals.summary()["evidence"]["LossCurve"]["courses"][0]
    finally:
        observer.close()


@pytest.mark.parametrize("passes", [1, 3])
def test_losses_that_come_late_from_a_device_make_the_same_course(passes):
    at_once, late = watched_losses(passes=passes, late=False), watched_losses(passes=passes, late=True)
    assert late["first"] == at_once["first"]
    assert late["updates"] == 20
    # None is left on its way when the run is over.
    assert len(late["bins"]) == 20
    assert [each["loss"] for each in late["bins"]] == pytest.approx([each["loss"] for each in at_once["bins"]])
