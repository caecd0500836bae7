import math

import pytest
import torch

from learning.test_range_test import setup, sgd
from netdyno.learning.range_test import RangeTest, range_test
from netdyno.learning.rate_race import proven
from netdyno.learning.run import setup_of, train
from netdyno.records.measured import Interval
from netdyno.records.study import Run
from netdyno.records.trial import Change


def suggesting(rate):
    middle = None if rate is None else Interval(middle=rate, low=rate, high=rate, level=0.95)
    return RangeTest(walks=(), suggestion=middle, factor=None, says="")


def hill(top, *, fails_above=math.inf, noise=0.0):
    """Trainings whose score falls with the distance to the best rate, in decades."""
    made = []

    def trained(recipe, seed):
        rate = recipe[0].settings["factor"] * 0.1  # the rate that stands is that of `sgd`
        made.append(rate)
        score = 0.9 - 0.1 * abs(math.log10(rate / top)) + noise * math.sin(1e6 * rate + seed)
        failed = rate > fails_above
        return Run(
            stage="optim", knob="learning-rate", recipe=recipe, seed=seed, updates=1, batch_size=1,
            score=None if failed else score, loss=None if failed else 1 - score, failed="it diverged" if failed else None,
        )  # fmt: skip

    return trained, made


@pytest.mark.parametrize("top", [1e-4, 1e-2, 0.3, 3.0])
def test_a_wrong_suggestion_is_climbed_away_from(top):
    trained, _ = hill(top)
    found = proven(setup(sgd), suggesting(0.01), trained=trained)
    assert abs(math.log10(found.rate / top)) < 0.2


def test_a_right_suggestion_costs_five_rates():
    trained, made = hill(0.01)
    assert proven(setup(sgd), suggesting(0.01), trained=trained).rate == 0.01
    assert len(set(made)) == 5


def test_rates_that_diverge_are_climbed_down_from():
    trained, _ = hill(10.0, fails_above=0.02)
    found = proven(setup(sgd), suggesting(1.0), trained=trained)
    assert found.rate <= 0.02


def test_nothing_is_proven_where_nothing_trains():
    trained, _ = hill(1.0, fails_above=0.0)
    assert proven(setup(sgd), suggesting(0.1), trained=trained) is None


def test_without_a_suggestion_it_begins_where_it_stands():
    trained, made = hill(0.1)
    proven(setup(sgd), suggesting(None), trained=trained)
    assert made[0] == pytest.approx(0.1)


def test_what_cannot_be_told_apart_is_told():
    trained, _ = hill(0.01, noise=0.5)
    found = proven(setup(sgd), suggesting(0.01), trained=trained)
    assert len(found.alike) > 1
    assert "cannot be told" in found.says


def test_on_a_real_training_it_reaches_the_best_of_a_grid():
    def made():
        draw = torch.Generator().manual_seed(0)
        inputs = torch.randn(192, 8, generator=draw)
        return inputs, (inputs[:, 0] * inputs[:, 1] > 0).long()

    subject = setup(sgd, train=made, model=lambda: torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Tanh(), torch.nn.Linear(24, 2)))  # fmt: skip
    subject = setup_of(subject.workload, updates=60)
    found = proven(subject, range_test(subject, seeds=(1, 2)), seeds=(1, 2))

    def score(rate):
        change = Change(id="learning-rate", settings={"factor": rate / 0.1})
        runs = [train(subject, seed=seed, recipe=[change], stage="optim", knob="grid") for seed in (1, 2)]
        return sum(run.score or 0.0 for run in runs) / 2

    assert score(found.rate) >= 0.99 * max(map(score, (0.003, 0.03, 0.3, 1.0)))
