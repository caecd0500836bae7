import random

import pytest

from netdyno.records.measured import Measurement
from netdyno.records.record import Plan, Record, Target
from netdyno.records.trial import Change, Prediction, Trial
from netdyno.verdicts.predictions import score_of, trust


def tried(gain, *, low=0.2, high=0.4, name="loader-workers", jitter=0.0, pairs=20, **more):
    chance = random.Random(0)
    control = tuple(chance.lognormvariate(0, jitter) for _ in range(pairs))
    treatment = tuple((1 - gain) * chance.lognormvariate(0, jitter) for _ in range(pairs))

    def seconds(samples):
        return Measurement(quantity="step", unit="s", samples=samples)

    fields = {"prediction": Prediction(low=low, high=high, why="data wait")} | more
    return Trial(
        change=Change(id=name),
        against=(),
        form="in-process",
        numerics="same-bits",
        control=seconds(control),
        treatment=seconds(treatment),
        **fields,
    )


def record_of(*trials):
    return Record(
        id="r",
        made_by="netdyno",
        made_at="now",
        command="netdyno tune",
        target=Target(name="t", source="t.py:T", item="i", items_per_step=1, steps_per_epoch=None),
        plan=Plan(),
        trials=trials,
    )


def test_an_unknown_intervention_is_not_in_the_ledger():
    assert trust([]) == {}


def test_predictions_that_come_true_keep_all_trust():
    assert trust([record_of(tried(0.3)), record_of(tried(0.25))])["loader-workers"] == 1.0


def test_doing_better_than_promised_costs_no_trust():
    assert score_of(tried(0.7)) == 1.0


def test_each_empty_promise_costs_trust_and_one_does_not_condemn():
    once = trust([record_of(tried(0.0, low=0.3))])["loader-workers"]
    often = trust([record_of(*[tried(0.0, low=0.3)] * 6)])["loader-workers"]
    assert once == pytest.approx(2 / 3)
    assert often == pytest.approx(2 / 8)


def test_half_a_promise_is_worth_half_a_point():
    assert score_of(tried(0.1, low=0.2)) == pytest.approx(0.5)


def test_a_failed_trial_delivered_nothing():
    assert score_of(tried(0.3, failed="killed")) == 0.0


def test_a_trial_that_cannot_tell_says_nothing():
    assert score_of(tried(0.1, low=0.15, high=0.4, jitter=0.3)) is None
    assert score_of(tried(0.3, prediction=None)) is None
    assert score_of(tried(0.3, pairs=0)) is None


def test_a_promise_of_nothing_broken_scores_nothing():
    assert score_of(tried(-0.5, low=0.0, high=0.1)) == 0.0


def test_interventions_are_scored_apart():
    found = trust([record_of(tried(0.3), tried(0.0, low=0.3, name="channels-last"))])
    assert found["loader-workers"] > found["channels-last"]
