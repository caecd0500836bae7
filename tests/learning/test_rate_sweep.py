"""The learning rate by curve, race and confirmation, against trainings whose best rate is known."""

import math
import random

import pytest

from learning.test_range_test import setup, sgd
from netdyno.knobs.learning_rate import LearningRate
from netdyno.learning import rate_sweep
from netdyno.learning.run import setup_of
from netdyno.learning.trainings import Trainings
from netdyno.records.study import Run
from netdyno.records.trial import Change

SEEDS = (1, 2, 3, 4, 5)
SUBJECT = setup_of(setup(sgd).workload, updates=400)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def hill(top, *, noise=0.002, clock=None):
    """Trainings whose score falls with the distance to the best rate, in decades; `sgd` stands at 0.1."""

    def trainer(subject, *, seed, recipe=(), stage, knob, **_):
        if clock is not None:
            clock.now += 1.0
        factor = next((change.settings["factor"] for change in recipe if change.id == "learning-rate"), 1.0)
        draw = random.Random(f"{seed} {factor}")
        score = 0.9 - 0.1 * abs(math.log10(0.1 * factor / top)) + noise * draw.gauss(0, 1)
        return Run(
            stage=stage, knob=knob, recipe=tuple(recipe), seed=seed, updates=400, batch_size=1, score=score, loss=1 - score,
            seconds=1.0,
        )  # fmt: skip

    return trainer


def swept(top, *, recipe=(), deadline=None, noise=0.002):
    clock = Clock()
    field = Trainings(setup=SUBJECT, kept=lambda _: None, trainer=hill(top, noise=noise, clock=clock), clock=clock)
    for seed in SEEDS:
        field.run(recipe, seed, stage="optim", knob="start")
    field.deadline = deadline
    return rate_sweep.rate_sweep(field, LearningRate, recipe, seeds=SEEDS, level=0.99), field


@pytest.mark.parametrize("top", [0.003, 0.02, 1.0])
def test_a_rate_that_trains_better_is_found_within_a_third_and_kept(top):
    found, _ = swept(top)
    assert found.verdict == "kept"
    factor = found.options[found.chosen].change.settings["factor"]
    assert abs(math.log10(0.1 * factor / top)) < 0.25
    assert found.options[found.chosen].effect.low > 0


def test_where_the_rate_that_stands_is_the_best_nothing_is_confirmed():
    found, field = swept(0.1)
    assert (found.verdict, found.chosen) == ("not distinguishable", None)
    assert "stands is the best" in found.says
    assert all(run.seed in SEEDS for run in field.runs)


def test_its_evidence_is_the_walk_and_the_race():
    found, _ = swept(1.0)
    walk, race = found.curves
    assert (walk.name, race.name) == ("learning-rate range", "learning-rate race")
    assert race.marks["best"] in race.x
    assert [option.change is None for option in found.options].count(True) == 1


def test_walks_are_on_record_with_their_updates():
    """Whoever compares what a search spent must find them."""
    _, field = swept(1.0)
    walks = [run for run in field.runs if any(change.id == "range-test" for change in run.recipe)]
    assert [run.seed for run in walks] == [1, 2]
    assert all(run.updates > 50 and run.score is None and run.failed is None for run in walks)
    assert field.expected_s() == pytest.approx(1.0)


def test_a_rate_that_was_kept_before_is_what_the_new_one_must_beat():
    stands = (Change(id="learning-rate", settings={"factor": 10.0}),)
    found, _ = swept(1.0, recipe=stands)
    assert found.verdict == "not distinguishable"
    again, _ = swept(0.005, recipe=stands)
    assert again.verdict == "kept"


def test_where_time_is_short_a_few_factors_are_swept_like_any_knob():
    found, _ = swept(1.0, deadline=5 + 29.0)
    assert {option.says for option in found.options[1:]} == {"factor 3", "factor 0.3", "factor 10", "factor 0.1"}


@pytest.mark.parametrize("top", [0.002, 0.011, 0.05, 0.4])
def test_with_little_noise_it_is_never_farther_from_the_best_than_half_a_stride(top):
    found, _ = swept(top, noise=1e-4)
    factor = found.options[found.chosen].change.settings["factor"] if found.chosen is not None else 1.0
    assert abs(math.log10(0.1 * factor / top)) <= math.log10(3) / 2
