import math

import numpy as np
import pytest

from netdyno.records.trial import Memory, Trajectories
from netdyno.verdicts.guards import (
    BROKEN,
    break_even,
    envelope,
    finite,
    memory,
    not_worse,
    same_bits,
    stability,
    steady,
)

SEEDS = (1, 2, 3)


def trained(*, seed=0, chaos=0.0, lag=0.0, val_shift=0.0, val_noise=0.0, steps=100, rounds=8, seeds=SEEDS):
    """Runs that share their batches. `chaos` is what amplified rounding does; `lag` is a loss that stays higher."""
    chance = np.random.default_rng(seed)
    train, val = [], []
    for s in seeds:
        batches = np.random.default_rng(1000 + s).normal(0, 0.1, steps)
        curve = 0.3 + 2.0 * np.exp(-np.arange(steps) / 30)
        train.append(tuple(curve * (1 + lag) * (1 + batches) * (1 + chance.normal(0, chaos, steps))))
        luck = np.random.default_rng(2000 + s).normal(0, 0.02)
        tail = 0.4 * (1 + luck + val_shift) * (1 + chance.normal(0, val_noise, rounds))
        val.append(tuple(tail))
    return Trajectories(seeds=seeds, train_losses=tuple(train), val_losses=tuple(val))


def flat(std, *, seed, rounds=8, seeds=3, level=1.0):
    chance = np.random.default_rng(seed)
    val = tuple(tuple(level + chance.normal(0, std, rounds)) for _ in range(seeds))
    return Trajectories(seeds=tuple(range(seeds)), train_losses=val, val_losses=val)


def test_bits_are_compared_and_not_values():
    assert same_bits([1.0, math.nan], [1.0, math.nan]).holds
    assert not same_bits([0.0], [-0.0]).holds
    assert not same_bits([1.0, 2.0], [1.0]).holds
    assert same_bits(["3f2a"], ["3f2a"]).holds
    assert same_bits([0.1 + 0.2], [0.3]).worst == 1.0


def test_a_run_that_follows_the_control_holds():
    parity = envelope(trained(), (), trained(chaos=0.01, seed=5), tolerance=0.02)
    assert parity.holds
    assert parity.measure == "envelope"


def test_a_run_that_lags_behind_is_caught():
    reordered = tuple(trained(chaos=0.02, seed=seed) for seed in (1, 2))
    parity = envelope(trained(), reordered, trained(chaos=0.02, lag=0.10, seed=9), tolerance=0.02)
    assert not parity.holds
    assert parity.output == "smoothed training loss"


def test_a_loss_that_falls_suspiciously_fast_is_caught_too():
    assert not envelope(trained(), (), trained(lag=-0.5), tolerance=0.02).holds


def test_a_worse_ending_is_caught_though_the_training_loss_agrees():
    parity = envelope(trained(), (), trained(val_shift=0.2), tolerance=0.02)
    assert not parity.holds
    assert parity.output == "final validation loss"


def test_what_rounding_does_to_a_control_is_allowed_to_a_treatment():
    """Everything here is as chaotic as everything else, so a strict tolerance must fail hardly anyone."""
    failed = 0
    for seed in range(100):
        runs = [trained(chaos=0.3, val_noise=0.1, seed=1000 * seed + i) for i in range(4)]
        failed += not envelope(trained(), tuple(runs[:2]), runs[2], tolerance=0.0).holds
    assert failed <= 15


def test_a_run_that_was_cut_short_or_blew_up_is_broken():
    cut = trained(steps=60)
    assert envelope(trained(), (), cut, tolerance=0.02).worst == BROKEN
    blown = Trajectories(seeds=SEEDS, train_losses=((math.nan,) * 100,) * 3, val_losses=trained().val_losses)
    assert envelope(trained(), (), blown, tolerance=0.02).worst == BROKEN


def test_other_randomness_that_ends_as_well_is_not_worse():
    parity = not_worse(trained(), trained(val_noise=0.01, seed=3), tolerance=0.05)
    assert parity.holds
    assert "bound over 3 seeds" in parity.output


def test_other_randomness_that_ends_clearly_worse_is_caught():
    parity = not_worse(trained(), trained(val_shift=0.3), tolerance=0.05)
    assert not parity.holds
    assert parity.worst == pytest.approx(0.3, rel=0.05)


def test_a_loss_that_is_lower_is_never_worse():
    assert not_worse(trained(), trained(val_shift=-0.3), tolerance=0.0).holds


def test_a_difference_such_as_another_seed_makes_is_not_held_against_a_change():
    passed = 0
    for seed in range(200):
        control, treatment = flat(0.0, seed=seed), flat(0.0, seed=seed)
        chance = np.random.default_rng(seed)
        ends = [tuple((1 + chance.normal(0, 0.1),) * 8 for _ in range(3)) for _ in range(2)]
        control = Trajectories(seeds=SEEDS, train_losses=ends[0], val_losses=ends[0])
        treatment = Trajectories(seeds=SEEDS, train_losses=ends[1], val_losses=ends[1])
        passed += not_worse(control, treatment, tolerance=0.02).holds
    assert passed >= 170


def test_a_single_seed_is_held_to_the_tolerance_alone():
    one = trained(seeds=(1,))
    assert not not_worse(one, trained(seeds=(1,), val_shift=0.05), tolerance=0.02).holds
    assert not_worse(one, one, tolerance=0.02).holds


def test_runs_without_an_ending_are_broken():
    short = trained(rounds=3)
    assert not_worse(trained(), short, tolerance=0.02).worst == BROKEN


def test_the_two_definitions_of_stability_are_reported_apart():
    runs = Trajectories(
        seeds=(1, 2),
        train_losses=((1.0,), (1.0,)),
        val_losses=((9.0, 1.0, 2.0, 3.0), (9.0, 11.0, 12.0, 13.0)),
    )
    found = stability(runs, burn_in=0.25)
    assert found.over_epochs.middle == pytest.approx(1.0)
    assert found.over_seeds.middle == pytest.approx(10 / math.sqrt(2))
    assert (found.rounds, found.seeds) == (3, 2)
    assert found.over_seeds.high > 100


def test_no_spread_is_made_up_from_too_little():
    none = stability(Trajectories(seeds=(1,), train_losses=((1.0,),), val_losses=((1.0,),)))
    assert (none.over_epochs, none.over_seeds) == (None, None)
    assert steady(none, none, spread=1.5).holds is None
    empty = stability(Trajectories(seeds=(), train_losses=(), val_losses=()))
    assert (empty.over_epochs, empty.rounds) == (None, 0)


def test_a_doubled_spread_is_caught_in_most_repeats():
    caught = sum(
        steady(stability(flat(0.012, seed=2 * i)), stability(flat(0.024, seed=2 * i + 1)), spread=1.5).holds is False
        for i in range(200)
    )
    assert caught >= 140


def test_the_seeds_own_story_of_0_012_to_0_031_is_caught_nearly_always():
    caught = sum(
        steady(stability(flat(0.012, seed=2 * i)), stability(flat(0.031, seed=2 * i + 1)), spread=1.5).holds is False
        for i in range(200)
    )
    assert caught >= 185


def test_an_unchanged_spread_is_called_unsteady_in_few_repeats():
    wrong = sum(
        steady(stability(flat(0.02, seed=2 * i)), stability(flat(0.02, seed=2 * i + 1)), spread=1.5).holds is False
        for i in range(1000)
    )
    assert wrong / 1000 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)


def test_the_spread_is_said_with_both_numbers():
    guard = steady(stability(flat(0.01, seed=1)), stability(flat(0.05, seed=2)), spread=1.5)
    assert guard.holds is False
    assert "× as much over rounds (0.0" in guard.says


def test_a_control_that_does_not_scatter_at_all_gives_no_ratio():
    still = stability(flat(0.0, seed=1))
    assert steady(still, still, spread=1.5).holds is True
    assert steady(still, stability(flat(0.1, seed=2)), spread=1.5).holds is None


def test_the_step_at_which_a_loss_stopped_being_a_number_is_named():
    losses = tuple([1.0] * 30 + [math.nan] * 10)
    guard = finite(Trajectories(seeds=(7,), train_losses=(losses,), val_losses=((1.0,),)))
    assert guard.holds is False
    assert guard.says == "the training loss is not finite from step 31 on (seed 7)"


def test_a_series_that_was_cut_at_its_end_is_not_called_finite():
    runs = Trajectories(seeds=(1, 2), train_losses=((1.0,) * 40, (1.0,) * 25), val_losses=((1.0,), (1.0,)))
    assert "step 26" in finite(runs).says
    whole = Trajectories(seeds=(1,), train_losses=((1.0,) * 40,), val_losses=((1.0,),))
    cut = Trajectories(seeds=(1,), train_losses=((1.0,) * 25,), val_losses=((1.0,),))
    assert finite(cut, whole).holds is False
    assert finite(whole).holds is True


def test_compilation_must_pay_within_the_steps_that_remain():
    assert break_even(30.0, 0.01, 5000).holds is True
    assert break_even(30.0, 0.01, 2000).holds is False
    assert "paid back after 3000 steps of the 5000" in break_even(30.0, 0.01, 5000).says
    assert break_even(30.0, 0.01, None).holds is None
    assert break_even(30.0, -0.01, 10**9).holds is False
    assert break_even(0.0, -0.01, 0).holds is True


def test_the_memory_budget_is_held_to_the_peak_that_was_measured():
    before, after = Memory(peak=900), Memory(peak=1200)
    assert memory(before, after, 1300).holds is True
    assert memory(before, after, 1000).holds is False
    assert memory(before, after, None).holds is True
    assert memory(Memory(state=5), Memory(state=5), 10).holds is None
    assert memory(Memory(state=5), Memory(state=50), 10).holds is False


def test_what_the_steps_seen_pay_back_is_paid_back_however_many_remain():
    assert break_even(1.0, 0.1, None, at_least=400).holds is True
    assert break_even(100.0, 0.1, None, at_least=400).holds is None
    assert break_even(100.0, 0.1, 500, at_least=400).holds is False
