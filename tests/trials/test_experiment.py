"""What pairs of runs say about a fix; no script runs here."""

import pytest

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.trial import Change
from netdyno.trials.experiment import Side, concluded

CHANGE = Change(id="clear-gradients")


def side(score=None, *, loss=1.0, seconds=0.01, peak=1e9, through=True):
    return Side(score, "accuracy", loss, seconds, peak, through)


def finding(*, stage="order", high=0.0, layer="optimisation"):
    return Finding(
        id="uncleared-gradients",
        says="",
        layer=layer,
        saves=Saving(low=0.0, high=high),
        because={},
        fix="",
        stage=stage,
    )


def experiment(pairs, **fields):
    return concluded(finding(**fields), CHANGE, tuple(range(len(pairs))), pairs)


BETTER = [(side(0.6 + 0.01 * seed), side(0.9 - 0.01 * seed)) for seed in range(5)]


def test_a_fix_that_helps_with_every_seed_is_proven():
    made = experiment(BETTER)
    assert made.verdict == "proven"
    assert made.effect.low > 0
    assert "accuracy 0.62 → 0.88 over 5 seeds" in made.says


def test_a_fix_that_changes_nothing_but_noise_is_undecided():
    made = experiment([(side(0.9), side(0.91)), (side(0.91), side(0.9)), (side(0.9), side(0.9))])
    assert made.verdict == "undecided"


def test_a_fix_that_hurts_is_refuted():
    assert experiment([(after, before) for before, after in BETTER]).verdict == "refuted"


def test_a_fix_that_costs_much_time_is_not_proven_and_says_so():
    made = experiment([(before, after._replace(seconds=0.02)) for before, after in BETTER])
    assert made.verdict == "undecided"
    assert "got worse" in made.says


def test_one_pair_proves_nothing():
    assert experiment(BETTER[:1]).verdict == "undecided"


def test_without_a_score_the_training_loss_counts():
    made = experiment([(side(loss=2.0 + 0.01 * seed), side(loss=1.0)) for seed in range(3)])
    assert (made.quantity, made.verdict) == ("training loss", "proven")


def test_what_costs_time_is_compared_by_time():
    made = experiment(
        [(side(0.9, seconds=0.02), side(0.9, seconds=0.01 + 0.0001 * n)) for n in range(4)], stage="speed", high=0.5
    )
    assert (made.quantity, made.verdict) == ("seconds per update", "proven")
    assert made.effect.middle == pytest.approx(0.5, abs=0.02)


def test_what_costs_memory_is_compared_by_the_peak():
    made = experiment([(side(peak=2e9 + n), side(peak=1e9)) for n in range(3)], stage="speed", layer="memory", high=0.1)
    assert (made.quantity, made.verdict) == ("peak memory", "proven")


def test_a_script_that_comes_through_only_with_the_fix_is_proven():
    made = experiment([(side(through=False), side(0.9))] * 3, stage="failure")
    assert (made.quantity, made.verdict) == ("runs that come through", "proven")


def test_nothing_to_compare_is_a_failed_experiment():
    nothing = Side(None, "", None, None, None, through=True)
    assert experiment([(nothing, nothing)]).verdict == "failed"
