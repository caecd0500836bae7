import random

import pytest

from netdyno.audits._base import audits
from netdyno.records.diagnosis import Finding, Outcome, Saving
from netdyno.records.study import Run
from netdyno.verdicts.overfitting_ladder import OTHER_TESTS, SPLIT_TEST, ladder, rises


def run(losses, seed=1, failed=None):
    course = tuple((10 * (at + 1), loss, 1 - loss / 10) for at, loss in enumerate(losses))
    return Run(
        stage="optim", knob="start", recipe=(), seed=seed, updates=10 * len(losses), batch_size=8, course=course,
        failed=failed,
    )  # fmt: skip


def overfit(seeds=5):
    falling, chance = (2.0, 1.2, 0.9, 0.8, 0.9, 1.1, 1.4), random.Random(0)
    return [run([loss + chance.gauss(0, 0.02) for loss in falling], seed) for seed in range(seeds)]


def outcome(rule, state="clear"):
    finding = None
    if state in {"found", "suspected"}:
        finding = Finding(
            id=rule, says="a classifier tells the splits apart", layer="data", saves=Saving(low=0, high=0), because={},
            fix="split at random", stage="data",
        )  # fmt: skip
    return Outcome(rule=rule, state=state, finding=finding, reason="there is one split" if state == "skipped" else None)


CLEAR = (outcome("covariate-shift"), outcome("label-shift"))


@pytest.mark.parametrize(
    "outcomes",
    [
        (),
        (outcome("label-shift"),),
        (outcome("covariate-shift", "skipped"),),
        (outcome("covariate-shift", "failed"),),
        (outcome("covariate-shift", "found"),),
        (outcome("covariate-shift", "suspected"),),
        (outcome("covariate-shift"), outcome("leaked-groups", "found")),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_no_regulariser_is_offered_before_the_split_is_known_to_be_sound(outcomes, asked):
    advice = ladder(outcomes, runs=overfit(), asked=asked)
    assert advice.actions
    assert {action.step for action in advice.actions} == {"split"}


def test_the_ladder_climbs_from_the_split_by_knowledge_to_what_holds_back():
    advice = ladder(CLEAR, runs=overfit())
    assert [action.knob for action in advice.actions] == [
        "distillation", "label-smoothing", "cut-mix", "early-stopping", "weight-decay", "dropout",
    ]  # fmt: skip
    steps = [action.step for action in advice.actions]
    assert steps == sorted(steps, key=["split", "knowledge", "regulariser"].index)


def test_a_split_that_differs_is_mended_first():
    advice = ladder((outcome("covariate-shift", "found"),), runs=overfit())
    assert "mend them first" in advice.says
    assert advice.actions[0].does == "split at random"


def test_runs_that_do_not_overfit_get_no_advice():
    falling = [run([2.0, 1.2, 0.9, 0.8, 0.75, 0.72, 0.7], seed) for seed in range(5)]
    advice = ladder(CLEAR, runs=falling)
    assert advice.actions == ()
    assert "no overfitting is seen" in advice.says


def test_noise_about_a_plateau_is_no_overfitting():
    alarms = 0
    for trial in range(200):
        chance = random.Random(trial)
        plateau = [run([1 + chance.gauss(0, 0.1) for _ in range(10)], seed) for seed in range(5)]
        alarms += bool(ladder(CLEAR, runs=plateau).actions)
    # 2.5 % are allowed to lie above the interval by chance; twice that and a bit in 200 trials.
    assert alarms <= 14


def test_a_rise_that_does_not_matter_is_left_alone():
    flat = [run([2.0, 1.0, 1.0, 1.0, 1.0, 1.001 + seed * 1e-5], seed) for seed in range(5)]
    assert "nothing to win" in ladder(CLEAR, runs=flat).says


def test_too_few_runs_are_no_ground_for_advice():
    for runs in ((), overfit(2), [run([2.0, 1.0, 1.5], seed) for seed in range(5)]):
        assert "nobody can tell" in ladder(CLEAR, runs=runs).says
    assert rises([run([1.0] * 6, seed, failed="it diverged") for seed in range(5)]) is None


def test_who_is_sure_of_it_gets_the_ladder_without_runs():
    assert ladder(CLEAR, asked=True).actions[0].knob == "distillation"


def test_the_rise_is_told_with_its_interval():
    rise = rises(overfit())
    assert rise.low < 0.6 < rise.high
    assert rise.low > 0.5


def test_the_tests_of_the_split_are_audits_of_this_house():
    assert {SPLIT_TEST, *OTHER_TESTS} <= {one.id for one in audits()}
