import math

import pytest
import torch

from learning.test_range_test import blobs, setup, sgd
from netdyno.learning.run import setup_of, train
from netdyno.learning.tuned import bake_off, batch_sweep, compared, rarest_class, turning_point
from netdyno.records.study import Run
from netdyno.records.trial import Change


def recipe(name, rate):
    return (Change(id="optimizer", settings={"name": name, "rate": rate}),)


def scripted(reaches, *, noise=0.01, fails=()):
    """Trainings whose score is told by name and rate."""
    made = []

    def trained(recipe, seed):
        name, rate = recipe[0].settings["name"], recipe[0].settings["rate"]
        made.append((name, rate, seed))
        failed = "it diverged" if (name, rate) in fails else None
        score = reaches(name, rate) + noise * math.sin(13 * seed + 5 * len(name) + rate)
        return Run(
            stage="optim", knob="optimizer", recipe=recipe, seed=seed, updates=9, batch_size=8, failed=failed,
            score=None if failed else score, classes=(score, score / 2),
        )  # fmt: skip

    return trained, made


def reaches(name, rate):
    return {"good": 0.9, "bad": 0.6, "same": 0.9}[name] - 0.1 * abs(math.log10(rate))


def both(trained, names=("good", "bad"), **told):
    choices = {name: [recipe(name, rate) for rate in (0.1, 1.0, 10.0)] for name in names}
    return compared(choices, tuning=(1, 2), fresh=(11, 12, 13, 14), trained=trained, **told)


def test_each_is_judged_at_its_own_best_rate_on_seeds_that_tuned_nothing():
    trained, made = scripted(reaches)
    rows = both(trained)
    assert [row.name for row in rows] == ["good", "bad"]
    assert all(row.recipe[0].settings["rate"] == 1.0 for row in rows)
    assert {seed for *_, seed in made if seed > 10} == {11, 12, 13, 14}
    assert set(rows[0].scores) == {11, 12, 13, 14}


def test_budgets_are_equal_or_refused():
    trained, _ = scripted(reaches)
    assert {row.tries for row in both(trained)} == {6}
    with pytest.raises(ValueError, match="unequal"):
        compared({"good": [recipe("good", 1.0)], "bad": []}, tuning=(1,), fresh=(2,), trained=trained)


def test_what_is_behind_beyond_noise_is_told_and_what_is_not_is_alike():
    trained, _ = scripted(reaches)
    told = {row.name: row for row in both(trained, ("good", "bad", "same"))}
    assert told["good"].alike
    assert told["same"].alike
    assert not told["bad"].alike
    assert told["bad"].behind.low > 0


def test_a_rate_that_fails_is_not_chosen_and_a_choice_that_always_fails_says_why():
    trained, _ = scripted(reaches, fails={("good", 1.0)})
    assert both(trained)[0].recipe[0].settings["rate"] != 1.0
    trained, _ = scripted(reaches, fails={("bad", rate) for rate in (0.1, 1.0, 10.0)})
    last = both(trained)[-1]
    assert (last.name, last.failed, last.alike) == ("bad", "it diverged", False)


def test_the_recall_of_the_rarest_class_has_its_interval():
    trained, _ = scripted(reaches)
    row = both(trained, rarest=1)[0]
    assert row.tail.low < row.tail.middle < row.tail.high
    assert row.tail.middle == pytest.approx(row.score.middle / 2)


def test_the_luckiest_on_fresh_seeds_is_not_what_the_others_are_compared_with():
    def trained(recipe, seed):
        name = recipe[0].settings["name"]
        lucky = 0.2 if name == "bad" and seed > 10 else 0.0
        score = {"good": 0.8, "bad": 0.7}[name] + lucky + 0.001 * seed
        return Run(stage="optim", knob="optimizer", recipe=recipe, seed=seed, updates=9, batch_size=8, score=score)

    rows = {row.name: row for row in both(trained)}
    assert rows["good"].behind is None  # it is the reference
    assert rows["bad"].behind.middle < 0
    assert all(row.alike for row in rows.values())


def real(subject):
    return lambda recipe, seed: train(subject, seed=seed, recipe=recipe, stage="optim", knob="tuned", evaluations=1)


def test_optimizers_bake_on_real_runs_and_one_that_is_not_there_says_so():
    subject = setup_of(setup(sgd).workload, updates=15)
    rows = bake_off(
        subject, names=("adamw", "nesterov", "adamw-8bit"), tuning=(1,), fresh=(11, 12, 13), trained=real(subject),
        factors=(1.0, 0.3),
    )  # fmt: skip
    told = {row.name: row for row in rows}
    assert len(told["adamw"].classes) == 3
    assert told["adamw"].state_bytes == 2 * told["nesterov"].state_bytes > 0
    assert told["adamw"].tail is not None
    assert told["adamw-8bit"].failed


def test_batch_sizes_are_swept_at_equal_epochs_and_at_equal_updates():
    subject = setup_of(setup(sgd).workload, updates=20)
    for equal, updates in (("epochs", {40, 20, 10}), ("updates", {20})):
        rows = batch_sweep(
            subject, (12, 24, 48), equal=equal, tuning=(1,), fresh=(11, 12), trained=real(subject), factors=(1.0, 0.3)
        )
        assert {row.updates for row in rows} == updates


def test_the_turning_point_is_an_interval():
    trained, _ = scripted(reaches)

    def sized(recipe, seed):
        size = recipe[0].settings["size"]
        name = "bad" if size == 64 else "good"
        return trained((Change(id="optimizer", settings={"name": name, "rate": 1.0}),), seed)

    rows = batch_sweep(setup(sgd), (8, 16, 32, 64), tuning=(1,), fresh=(11, 12, 13), trained=sized, factors=(1.0,))
    assert turning_point(rows) == (8, 32)
    assert turning_point([]) is None


def test_the_rarest_class_is_counted():
    inputs, labels = blobs(90)
    few = torch.cat([torch.where(labels != 1)[0], torch.where(labels == 1)[0][:5]])
    assert rarest_class(setup(train=lambda: (inputs[few], labels[few])).workload) == 1
    assert rarest_class(setup(train=lambda: (inputs, inputs)).workload) is None
