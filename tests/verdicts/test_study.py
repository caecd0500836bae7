import random

import pytest

from netdyno.records.study import Option, Run, Sweep
from netdyno.records.trial import Change
from netdyno.verdicts import study

A, B = Change(id="a"), Change(id="b")


def run(seed, score, recipe=(), course=()):
    return Run(
        stage="reg", knob="k", recipe=tuple(recipe), seed=seed, updates=1, batch_size=1, score=score, course=course
    )


def kept(change, *, gain, effort=1.0, reason="damps"):
    effect = study.effect({1: 0.0, 2: 0.0, 3: 0.0}, {1: gain, 2: gain * 1.01, 3: gain * 0.99}, 0.95)
    options = (Option(change=None, says="as it stands"), Option(change=change, says="on", effect=effect))
    return Sweep(
        knob=change.id, stage="reg", asks="?", reason=reason, options=options, seeds=(1, 2, 3), verdict="kept", chosen=1,
        effort_min=effort,
    )  # fmt: skip


def test_an_effect_is_paired_by_seed():
    found = study.effect({1: 0.1, 2: 0.195, 3: 0.29}, {1: 0.2, 2: 0.3, 3: 0.385, 4: 0.0}, 0.95)
    assert found.middle == pytest.approx(0.1)
    assert 0 < found.low < found.middle < found.high
    assert study.effect({1: 0.1}, {2: 0.2}, 0.95) is None


def test_two_pairs_never_prove_anything():
    found = study.effect({1: 0.1, 2: 0.1}, {1: 0.9, 2: 0.9}, 0.95)
    assert not study.is_better(found, pairs=2)


def test_equal_differences_of_one_sample_are_not_a_certainty():
    found = study.effect({1: 0.90, 2: 0.91, 3: 0.92}, {1: 0.91, 2: 0.92, 3: 0.93}, 0.95)
    assert found.low < 0 < found.high
    assert not study.is_better(found, pairs=3)


def test_a_null_is_kept_no_more_often_than_the_level_says():
    draw = random.Random(0)
    wrong = 0
    for _ in range(1000):
        before, after = ({seed: draw.gauss(0.9, 0.01) for seed in range(5)} for _ in range(2))
        wrong += study.is_better(study.effect(before, after, 0.90), pairs=5)
    assert 20 < wrong < 80  # one side of 90 %: 50 are expected


def test_settings_that_cannot_be_told_from_the_chosen_one_stand_beside_it():
    scores = {
        0: {1: 0.90, 2: 0.91, 3: 0.89, 4: 0.90},
        1: {1: 0.91, 2: 0.90, 3: 0.90, 4: 0.895},
        2: {1: 0.50, 2: 0.52, 3: 0.49, 4: 0.50},
    }
    assert study.best_of(scores) == 1
    assert study.among(scores, 1, 0.95) == (0, 1)


def test_a_setting_with_one_seed_is_measured_by_the_noise_of_other_pairs():
    scores = {0: {1: 0.90}, 1: {1: 0.91, 2: 0.92, 3: 0.90}, 2: {1: 0.42}}
    noise = (0.03, 0.01, 0.02, 0.04, 0.00)
    assert study.among(scores, 1, 0.95, noise=noise) == (0, 1)


def test_what_fails_on_a_seed_is_no_candidate():
    assert study.best_of({0: {1: 0.99}, 1: {1: 0.5, 2: 0.5}}) == 1
    assert study.best_of({0: {}}) is None


def test_noise_between_seeds_and_within_a_run_are_told_apart():
    steady = [run(s, 0.9 + 0.02 * s, course=tuple((u, 1.0, 0.9 + 0.001 * (u % 2)) for u in range(6))) for s in range(5)]
    found = study.noise(steady)
    assert found.between.middle > 10 * found.within.middle
    wobbling = [run(s, 0.9 + 1e-4 * s, course=tuple((u, 1.0, 0.9 + 0.1 * (u % 2)) for u in range(6))) for s in range(5)]
    assert "a single evaluation says less than a seed" in study.noise_in_words(study.noise(wobbling))
    assert study.noise_in_words(study.noise([run(1, 0.9)])) == "one seed shows no noise between seeds"


def test_a_planted_shift_is_structure_and_a_redraw_is_not():
    draw = random.Random(1)
    one, same = ([draw.gauss(0.80, 0.01) for _ in range(6)] for _ in range(2))
    shifted = [value + 0.05 for value in same]
    assert study.structure(one, shifted).low > 0
    assert study.structure(one, same).low < 0 < study.structure(one, same).high


def test_holm_lets_fall_what_is_small_enough_for_its_rank():
    assert study.holm([0.04, 0.001, 0.02], 0.05) == (True, True, True)
    assert study.holm([0.04, 0.001, 0.03], 0.05) == (False, True, False)


def test_the_order_is_gain_per_minute_of_effort():
    much, quick, nothing = kept(A, gain=0.02, effort=20), kept(B, gain=0.01, effort=1), kept(A, gain=0.0, effort=1)
    assert study.ordered_by_worth([nothing, much, quick]) == (quick, much, nothing)


def test_a_knob_without_its_sweep_or_without_a_reason_is_unproven():
    assert study.unproven((A, B), [kept(A, gain=0.1)]) == ("b",)
    assert study.unproven((A,), [kept(A, gain=0.1, reason="")]) == ("a",)
    assert study.unproven((Change(id="a", settings={"x": 1}),), [kept(A, gain=0.1)]) == ("a",)


def test_a_cell_of_the_ladder_says_when_it_is_inside_the_noise():
    first = {"score": {1: 0.80, 2: 0.81, 3: 0.79}, "seconds": {1: 1.0, 2: 1.1, 3: 0.9}}
    second = {"score": {1: 0.90, 2: 0.912, 3: 0.889}, "seconds": {1: 1.1, 2: 0.9, 3: 1.05}}
    low = study.rung("start", (), first, None, earlier=None, level=0.95)
    high = study.rung("+ a", (A,), second, low, earlier=first, level=0.95)
    assert low.cells["score"].delta is None
    assert high.cells["score"].told
    assert not high.cells["seconds"].told
    assert high.seeds == 3
