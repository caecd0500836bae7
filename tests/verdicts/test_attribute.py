import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.records.trial import ArmTimes, Change
from netdyno.verdicts.attribute import attribute, key_of, ladder, speedup

A, B, C, D = (Change(id=name) for name in ("loader-workers", "channels-last", "bf16-autocast", "fused-optimizer"))


def seconds_of(recipe):
    """A world whose truth is known: A saves 30 ms, B 20 ms, C 10 ms, D 1 ms, and A and B win 8 ms twice."""
    names = {change.id for change in recipe}
    saved = {A.id: 0.030, B.id: 0.020, C.id: 0.010, D.id: 0.001}
    twice = 0.008 if {A.id, B.id} <= names else 0.0
    return 0.200 - sum(saved[name] for name in names) + twice


def raced(order, *, spawns=5, rounds=6, noise=0.005, luck=0.0, drift=0.0, seed=0, truth=seconds_of):
    """Arms and checks of `order`. Every process has its own luck; the machine drifts from round to round."""
    chance = np.random.default_rng(seed)
    recipes = ladder(order)

    def process(recipe, level):
        return tuple(truth(recipe) * level * np.exp(chance.normal(0, noise, len(level))))

    times = [[] for _ in recipes]
    check_baseline, check_final = [], []
    for _ in range(spawns):
        fortune = [np.exp(chance.normal(0, luck)) for _ in recipes]
        level = np.exp(np.cumsum(chance.normal(0, drift, rounds)))
        for rows, recipe, mine in zip(times, recipes, fortune, strict=True):
            rows.append(process(recipe, level * mine))
        check_baseline.append(process((), level * fortune[0]))
        check_final.append(process(order, level * fortune[recipes.index(order)]))
    return {
        "order": order,
        "arms": tuple(ArmTimes(recipe=r, times=tuple(rows)) for r, rows in zip(recipes, times, strict=True)),
        "check_baseline": tuple(check_baseline),
        "check_final": tuple(check_final),
    }


def attributed(order, *, level=0.95, **world):
    return attribute(**raced(order, **world), level=level, codes={}, trials={})


def test_every_piece_is_found_and_an_overlap_is_split_between_those_who_share_it():
    found = attributed((A, B, C, D))
    gains = {share.change.id: share.gain for share in found.shares}
    assert gains[A.id].middle == pytest.approx(0.026, abs=0.001)
    assert gains[B.id].middle == pytest.approx(0.016, abs=0.001)
    assert gains[C.id].middle == pytest.approx(0.010, abs=0.001)
    assert found.total.holds(0.053)
    assert found.residual.middle == pytest.approx(0.0, abs=0.001)


def test_both_orders_of_the_ladder_are_shown():
    first, second = attributed((A, B)).shares
    assert first.forward.middle == pytest.approx(0.030, abs=0.001)
    assert first.backward.middle == pytest.approx(0.022, abs=0.001)
    assert second.forward.middle == pytest.approx(0.012, abs=0.001)
    assert second.backward.middle == pytest.approx(0.020, abs=0.001)
    assert first.left_out.middle == first.backward.middle


@given(st.integers(0, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 100))
def test_rows_and_residual_add_up_to_the_total(count, spawns, rounds, seed):
    found = attributed((A, B, C, D)[:count], spawns=spawns, rounds=rounds, noise=0.1, luck=0.05, drift=0.1, seed=seed)
    rows = [share.gain.middle for share in found.shares]
    assert math.fsum([*rows, found.residual.middle]) == pytest.approx(found.total.middle, rel=1e-12, abs=1e-15)
    assert found.total.middle == pytest.approx(found.baseline_s.middle - found.final_s.middle)
    for interval in (found.total, found.residual, found.speedup, *(share.gain for share in found.shares)):
        assert interval.low <= interval.middle <= interval.high
        assert math.isfinite(interval.low)
        assert math.isfinite(interval.high)


def test_changes_that_win_twice_have_a_negative_term_that_stands_out():
    terms = {term.change.id: term for term in attributed((A, B, C)).interactions}
    assert terms[A.id].term.middle == pytest.approx(-0.008, abs=0.001)
    assert terms[A.id].distinguishable
    assert terms[B.id].distinguishable
    assert not terms[C.id].distinguishable


def test_changes_that_only_help_together_have_a_positive_term():
    def together(recipe):
        return 0.1 if len(recipe) < 2 else 0.06

    first, second = attributed((A, B), truth=together).interactions
    assert first.term.middle == pytest.approx(0.04, abs=0.001)
    assert first.term.middle == pytest.approx(second.term.middle)


def test_additive_changes_show_an_interaction_in_few_cases_only():
    def additive(recipe):
        return 0.2 - 0.02 * len(recipe)

    shown = sum(attributed((A, B), truth=additive, seed=seed).interactions[0].distinguishable for seed in range(100))
    assert shown <= 12


def test_the_luck_of_processes_is_in_the_intervals():
    """Two identical processes differ by a few per cent; nine of ten intervals or more must hold the truth all the same."""
    held = 0
    for seed in range(100):
        found = attributed((A, B), luck=0.03, rounds=3, seed=seed)
        held += found.shares[0].gain.holds(0.026)
    assert held >= 90


def test_drift_of_the_machine_is_not_attributed_to_anyone():
    found = attributed((A, B), drift=0.2, noise=0.002, seed=4)
    calm = attributed((A, B), drift=0.0, noise=0.002, seed=4)
    shares = [share.gain.middle / found.baseline_s.middle for share in found.shares]
    expected = [share.gain.middle / calm.baseline_s.middle for share in calm.shares]
    assert shares == pytest.approx(expected, abs=0.01)


def test_one_stall_does_not_become_a_gain():
    world = raced((A,), noise=0.002)
    stalled = [list(rows) for rows in world["arms"][0].times]
    stalled[2] = (9.0, *stalled[2][1:])
    world["arms"] = (ArmTimes(recipe=(), times=tuple(stalled)), *world["arms"][1:])
    found = attribute(**world, level=0.95, codes={}, trials={})
    assert found.shares[0].gain.middle == pytest.approx(0.030, abs=0.002)


def test_arms_are_known_by_their_changes_and_not_by_their_order():
    world = raced((A, B, C))
    world["arms"] = tuple(
        ArmTimes(recipe=tuple(reversed(arm.recipe)), times=arm.times) for arm in reversed(world["arms"])
    )
    turned = attribute(**world, level=0.95, codes={}, trials={})
    assert turned.shares == attributed((A, B, C)).shares
    assert key_of((A, B)) == key_of((B, A))
    assert key_of((Change(id="x", settings={"n": 1}),)) != key_of((Change(id="x", settings={"n": 2}),))


def test_a_single_spawn_gives_intervals_over_its_rounds():
    found = attributed((A, B), spawns=1, rounds=12)
    assert found.shares[0].gain.holds(0.026)
    assert found.shares[0].gain.width < 0.01
    assert found.residual.holds(0.0)


def test_a_single_round_decides_nothing():
    found = attributed((A,), spawns=1, rounds=1)
    assert found.shares[0].gain.low < -1
    assert found.shares[0].gain.high > 1


def test_nothing_kept_leaves_all_of_the_total_unexplained():
    found = attributed(())
    assert found.shares == ()
    assert found.residual.middle == found.total.middle
    assert found.speedup.holds(1.0)


def test_a_missing_rung_is_named():
    world = raced((A, B))
    world["arms"] = world["arms"][:-1]
    with pytest.raises(ValueError, match="the ladder has no arm for"):
        attribute(**world, level=0.95, codes={}, trials={})


def test_shares_carry_their_trial_and_their_code():
    found = attribute(**raced((A,)), level=0.95, codes={A.label: "num_workers=2"}, trials={A.label: 4})
    assert (found.shares[0].trial, found.shares[0].code) == (4, "num_workers=2")


def test_the_ladder_races_no_recipe_twice():
    for count in range(5):
        recipes = ladder((A, B, C, D)[:count])
        keys = [key_of(recipe) for recipe in recipes]
        assert len(set(keys)) == len(keys)
        assert recipes[0] == ()
        assert (A, B, C, D)[:count] in recipes


def test_the_speedup_is_the_ratio_of_the_two_ends():
    found = speedup(((2.0, 2.02), (2.0, 1.98), (2.01, 2.0)), ((1.0, 1.01), (1.0, 0.99), (1.0, 1.0)), level=0.95)
    assert found.holds(2.0)
    assert found.width < 0.1
