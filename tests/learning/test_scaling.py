import math

import pytest
import torch

from learning.test_range_test import setup, sgd
from netdyno.learning.run import setup_of, train
from netdyno.learning.scaling import advised, decays, rate_warning, scaled, tried
from netdyno.records.study import Run


def adamw(parameters, rate=1e-3, decay=0.01):
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)


def of(make):
    return make([torch.nn.Parameter(torch.zeros(2, 2))])


def test_both_rules_have_their_exact_numbers():
    assert scaled(0.1, batch=256, to=1024) == (0.1, 0.2, 0.4)
    assert scaled(0.1, batch=64, to=16) == (0.1, 0.05, 0.025)


def test_plain_gradients_are_advised_linearly_and_adam_by_the_root():
    assert advised(of(sgd), batch=32, to=128).rule == "linear"
    assert advised(of(adamw), batch=32, to=128).rule == "sqrt"


def test_four_times_the_decay_for_four_times_the_batch_shrinks_weights_twice_as_much():
    ways = {way.rule: way.per_epoch for way in decays(1e-2, 0.04, batch=256, to=1024, rule="sqrt", steps=10)}
    before = 1e-2 * 0.04 * 10
    assert math.isclose(before, 0.004)
    assert math.isclose(ways["linear"], 0.008)
    assert math.isclose(ways["sqrt"], 0.004)


@pytest.mark.parametrize("make", [adamw, lambda weights: torch.optim.SGD(weights, lr=0.1, weight_decay=5e-4)])
def test_the_decay_that_is_advised_keeps_what_an_epoch_shrinks(make):
    optimizer = of(make)
    group = optimizer.param_groups[0]
    found = advised(optimizer, batch=64, to=512, steps=80)
    kept = next(way for way in found.decays if way.rule == found.decay_rule)
    assert math.isclose(kept.per_epoch, group["lr"] * group["weight_decay"] * 80)


def test_what_has_no_decay_is_told_nothing_of_it():
    found = advised(of(sgd), batch=32, to=64)
    assert found.decays == ()
    assert "decay" not in found.says


def scripted(means):
    """Trainings whose score depends on the rule alone."""

    def trained(recipe, seed):
        rule = recipe[0].settings["scaling"]
        return Run(
            stage="optim", knob="batch-size", recipe=recipe, seed=seed, updates=1, batch_size=1,
            score=means[rule] + 0.01 * math.sin(7 * seed + len(rule)),
        )  # fmt: skip

    return trained


def test_a_rule_is_believed_when_its_runs_say_so():
    found = tried(96, seeds=range(6), trained=scripted({"none": 0.5, "sqrt": 0.6, "linear": 0.5}))
    assert {one.rule: one.told for one in found} == {"none": False, "sqrt": True, "linear": False}


def test_a_rule_that_loses_is_told_too():
    found = tried(96, seeds=range(6), trained=scripted({"none": 0.5, "sqrt": 0.5, "linear": 0.3}))
    assert found[2].told
    assert found[2].gain.high < 0


def test_rules_are_tried_on_real_runs():
    subject = setup_of(setup(sgd).workload, updates=20)

    def trained(recipe, seed):
        return train(subject, seed=seed, recipe=recipe, stage="optim", knob="batch-size")

    found = tried(48, seeds=(1, 2), trained=trained)
    assert [len(one.scores) for one in found] == [2, 2, 2]


def test_a_rate_far_above_that_of_adam_is_warned_of():
    assert "20 times" in rate_warning(setup(lambda parameters: adamw(parameters, 0.02)))
    assert rate_warning(setup(adamw)) is None
    assert rate_warning(setup(sgd)) is None
