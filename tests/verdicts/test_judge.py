import math

import numpy as np
import pytest
from msgspec.structs import replace

from netdyno.records.measured import Measurement
from netdyno.records.trial import Change, Guard, Memory, Parity, Trial
from netdyno.stats.sequential import campaign_error, look_error, schedule
from netdyno.verdicts.judge import judge, look, memory_saved, seen_in

BOTTLENECK = "the device waits for data 40 % of every step"
GOOD_PATH = Parity(output="smoothed training loss", worst=0.01, allowed=0.02, measure="envelope")


def seconds(samples):
    return Measurement(quantity="step", unit="s", samples=tuple(samples))


def trial_of(control, treatment, **more):
    fields = {
        "change": Change(id="channels-last"),
        "against": (),
        "form": "in-process",
        "numerics": "same-bits",
        "parity": (Parity(output="losses", worst=0.0, allowed=0.0, measure="bits"),),
    }
    return Trial(control=seconds(control), treatment=seconds(treatment), **(fields | more))


def noisy(true_gain, *, pairs=60, noise=0.02, seed=0):
    chance = np.random.default_rng(seed)
    return (
        list(np.exp(chance.normal(0, noise, pairs))),
        list((1 - true_gain) * np.exp(chance.normal(0, noise, pairs))),
    )


def paired(true_gain, *, pairs=60, noise=0.02, seed=0, **more):
    return trial_of(*noisy(true_gain, pairs=pairs, noise=noise, seed=seed), **more)


def judged(trial, **policy):
    return judge(
        trial, **({"number": 3, "least_gain": 0.05, "error": 0.01, "bottleneck": BOTTLENECK, "undone": True} | policy)
    )


def test_a_proven_gain_with_three_ticks_is_kept_and_said_with_its_range():
    verdict = judged(paired(0.23))
    assert verdict.decision == "keep"
    assert verdict.trial == 3
    assert verdict.gain.holds(0.23)
    assert verdict.reasons[0].startswith("saves 23")
    assert "(99 %: " in verdict.reasons[0]
    assert verdict.reasons[0].endswith("more than the 5 % asked for")
    assert verdict.ticks.all


def test_a_gain_below_what_was_asked_is_dropped_with_both_numbers():
    verdict = judged(paired(0.02))
    assert verdict.decision == "drop"
    assert "saves only 2" in verdict.reasons[0]
    assert "less than the 5 % asked for" in verdict.reasons[0]


def test_a_loss_is_called_a_cost():
    assert judged(paired(-0.3)).reasons[0].startswith("costs 30")


def test_noise_is_called_noise():
    verdict = judged(paired(0.0, pairs=12, noise=0.3))
    assert verdict.decision == "undecided"
    assert verdict.reasons[0].startswith("not distinguishable from noise")
    sure = judged(paired(0.0))
    assert sure.decision == "drop"
    assert sure.reasons[0].startswith("not distinguishable from noise")


def test_too_few_pairs_decide_nothing_however_clear_they_look():
    verdict = judged(trial_of([1.0] * 4, [0.5] * 4))
    assert verdict.decision == "undecided"
    assert "too few pairs" in verdict.reasons[0]


def test_no_pairs_at_all_are_undecided():
    verdict = judged(trial_of([], []))
    assert (verdict.decision, verdict.gain) == ("undecided", None)


def test_a_crashed_trial_is_dropped_with_its_reason():
    verdict = judged(trial_of([], [], failed="out of memory after 3 steps"))
    assert (verdict.decision, verdict.gain) == ("drop", None)
    assert verdict.reasons == ("failed: out of memory after 3 steps",)


@pytest.mark.parametrize(
    ("policy", "says"),
    [({"bottleneck": None}, "no measured bottleneck"), ({"undone": None}, "nobody checked")],
)
def test_a_candidate_that_lacks_a_tick_is_rejected_with_that_reason(policy, says):
    verdict = judged(paired(0.23), **policy)
    assert verdict.decision == "drop"
    assert says in verdict.reasons[0]
    assert not verdict.ticks.all


def test_a_change_that_cannot_be_taken_back_is_dropped_first_of_all():
    verdict = judged(paired(0.23), undone=False)
    assert verdict.decision == "drop"
    assert "did not restore every byte" in verdict.reasons[0]


def test_a_faster_change_with_wrong_outputs_is_rolled_back():
    wrong = Parity(output="losses of 40 updates", worst=1.0, allowed=0.0, measure="bits")
    verdict = judged(paired(0.5, parity=(wrong,)))
    assert verdict.decision == "drop"
    assert verdict.reasons[0].startswith("rolled back: losses of 40 updates differs")
    assert "saves 50" in verdict.reasons[1]


def test_a_faster_change_that_unsettles_training_is_rolled_back():
    guard = Guard(name="stability", holds=False, says="the validation loss scatters 2.6× as much over rounds")
    verdict = judged(paired(0.2, guards=(guard,)))
    assert verdict.decision == "drop"
    assert verdict.reasons[0] == "rolled back: the validation loss scatters 2.6× as much over rounds"


@pytest.mark.parametrize("numerics", ["lower-precision", "other-randomness", "other-training"])
def test_a_guard_that_could_not_be_judged_leaves_a_change_of_training_undecided(numerics):
    unknown = Guard(name="stability", holds=None, says="too few rounds")
    trial = paired(0.2, numerics=numerics, parity=(GOOD_PATH,), guards=(unknown,))
    assert judged(trial).decision == "undecided"
    assert judged(replace(trial, numerics="reordered")).decision == "keep"


def test_a_change_of_training_is_not_kept_when_nobody_looked_at_the_training():
    loose = Parity(output="losses", worst=1.0, allowed=1.0, measure="bits")
    trial = paired(0.2, numerics="lower-precision", parity=(loose,))
    assert judged(trial).decision == "undecided"
    assert judged(replace(trial, parity=(loose, GOOD_PATH))).decision == "keep"
    assert judged(replace(trial, parity=(replace(loose, worst=0.0),))).decision == "keep"


def test_sides_that_ate_different_batches_are_not_compared():
    trial = paired(0.2, checksums=("aa", "bb"))
    assert judged(trial).decision == "undecided"
    assert "different batches" in judged(trial).reasons[0]
    assert judged(replace(trial, checksums=("aa", "aa"))).decision == "keep"


def test_a_missing_comparison_of_losses_is_said_aloud():
    verdict = judged(paired(0.2, parity=()))
    assert verdict.decision == "keep"
    assert "were not compared" in verdict.reasons[-1]


def test_bursts_that_speed_up_the_typical_step_only_are_not_kept():
    trial = trial_of([1.0] * 80, ([0.8] * 7 + [2.4]) * 10)
    verdict = judged(trial)
    assert verdict.decision == "undecided"
    assert "the typical step and the total disagree" in verdict.reasons[0]


def test_uneven_steps_that_do_pay_are_kept_with_the_smaller_number_beside():
    trial = trial_of([1.0] * 80, ([0.5] * 7 + [1.5]) * 10)
    verdict = judged(trial)
    assert verdict.decision == "keep"
    assert "steps are uneven" in verdict.reasons[1]


def test_between_processes_the_spawn_counts_and_not_the_pair():
    chance = np.random.default_rng(0)
    luck = np.repeat([0.12, -0.05, 0.1, 0.02, 0.11], 40)
    control = np.ones(200)
    treatment = np.exp(-luck + chance.normal(0, 0.002, 200))
    spawns = tuple(np.repeat(range(5), 40).tolist())
    trial = trial_of(control, treatment, spawns=spawns)
    assert judged(trial, least_gain=0.0).decision == "keep"
    assert judged(replace(trial, form="processes"), least_gain=0.0).decision == "undecided"


def test_a_gain_that_every_spawn_shows_is_kept():
    chance = np.random.default_rng(0)
    treatment = 0.7 * np.exp(chance.normal(0, 0.01, 25))
    trial = trial_of(np.ones(25), treatment, form="processes", spawns=tuple(np.repeat(range(5), 5).tolist()))
    assert judged(trial).decision == "keep"
    one = replace(trial, spawns=(0,) * 25)
    assert judged(one).decision == "undecided"
    assert "too few pairs or spawns" in judged(one).reasons[0]


def test_a_stored_trial_is_judged_as_it_was_when_it_ran():
    error, plan = 0.004, schedule(8, 200, 0.004)
    control, treatment = noisy(0.1, pairs=200, noise=0.05, seed=3)
    taken = []
    for pairs in plan.looks:
        taken.append(pairs)
        alpha = look_error(tuple(taken), planned=200, error=error)
        live = look(control[:pairs], treatment[:pairs], spawns=(), form="in-process", least_gain=0.05, alpha=alpha)
        if live.decision != "undecided":
            break
    assert live.decision == "keep"
    assert pairs < 200
    stored = trial_of(control[:pairs], treatment[:pairs], looks=tuple(taken), planned_pairs=200)
    verdict = judged(stored, error=error)
    assert (verdict.decision, verdict.gain) == (live.decision, live.gain)


def test_another_policy_gives_another_verdict_from_the_same_samples():
    trial = paired(0.1, looks=(20, 40, 60), planned_pairs=60)
    assert judged(trial, least_gain=0.05).decision == "keep"
    assert judged(trial, least_gain=0.15).decision == "drop"


def test_samples_after_the_last_look_do_not_count():
    control, treatment = noisy(0.2, pairs=30)
    trial = trial_of(control + [1.0] * 30, treatment + [5.0] * 30, looks=(30,), planned_pairs=30)
    assert judged(trial).decision == "keep"


def test_a_side_that_died_in_the_middle_of_a_pair_leaves_whole_pairs():
    control, treatment = noisy(0.2, pairs=30)
    assert seen_in(trial_of([*control, 1.0], treatment), least_gain=0.05, error=0.01).decision == "keep"


def test_less_memory_within_its_price_is_a_win_under_a_memory_goal_only():
    memory = {
        "memory_control": Memory(activations=75_000_000, state=5_000_000),
        "memory_treatment": Memory(activations=23_000_000, state=5_000_000),
    }
    trial = paired(0.0, **memory)
    assert judged(trial).decision == "drop"
    verdict = judged(trial, goal="memory")
    assert verdict.decision == "keep"
    assert verdict.reasons[0].startswith("saves 65 % of memory: loses at most")
    dear = judged(paired(-0.3, **memory), goal="memory")
    assert dear.decision == "drop"
    assert dear.reasons[0].startswith("saves 65 % of memory, but may lose")
    assert judged(paired(-0.3, **memory), goal="memory", time_price=0.5).decision == "keep"


def test_memory_whose_price_lies_on_the_line_is_undecided():
    memory = {"memory_control": Memory(state=10), "memory_treatment": Memory(state=5)}
    on_the_line = judged(paired(-0.3, **memory), goal="memory", time_price=0.3)
    assert on_the_line.decision == "undecided"
    assert "30 % allowed" in on_the_line.reasons[0]


def test_more_memory_is_no_win_under_a_memory_goal():
    trial = paired(0.0, memory_control=Memory(state=10), memory_treatment=Memory(state=12))
    assert judged(trial, goal="memory").decision == "drop"


def test_memory_is_compared_by_exact_counts_before_peaks():
    assert memory_saved(Memory(state=100, peak=10), Memory(state=50, peak=20)) == pytest.approx(0.5)
    assert memory_saved(Memory(peak=100), Memory(peak=80)) == pytest.approx(0.2)
    assert memory_saved(Memory(), Memory()) is None
    assert memory_saved(None, Memory(state=1)) is None


@pytest.mark.parametrize("shape", ["gaussian", "heavy"])
def test_campaigns_in_which_nothing_is_faster_keep_something_in_at_most_one_of_twenty(shape):
    """Least gain 0 is the hardest case: every trial sits on the line between keep and drop."""
    chance = np.random.default_rng(11)
    trials, campaigns = 6, 150
    error = campaign_error(0.05, trials)
    plan = schedule(8, 60, error)
    draw = (lambda: chance.normal(0, 0.1, 60)) if shape == "gaussian" else (lambda: 0.1 * chance.standard_t(2, 60))
    false = 0
    for _ in range(campaigns):
        kept = False
        for _ in range(trials):
            drift = np.exp(np.cumsum(chance.normal(0, 0.05, 60)))
            trial = trial_of(
                drift * np.exp(draw()), drift * np.exp(draw()), looks=plan.looks, planned_pairs=plan.looks[-1]
            )
            kept |= seen_in(trial, least_gain=0.0, error=error).decision == "keep"
        false += kept
    assert false / campaigns <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / campaigns)


def test_a_planted_tenth_is_kept_and_a_planted_fiftieth_is_not():
    error = campaign_error(0.05, 12)
    plan = schedule(8, 120, error)
    more = {"looks": plan.looks, "planned_pairs": 120}
    kept = {
        true: sum(
            seen_in(paired(true, pairs=120, noise=0.05, seed=seed, **more), least_gain=0.05, error=error).decision
            == "keep"
            for seed in range(40)
        )
        for true in (0.10, 0.02)
    }
    assert kept[0.10] >= 36
    assert kept[0.02] == 0
