"""What pairs of runs say about a fix; no script runs here."""

import random
from types import SimpleNamespace

import pytest

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.scores import Round, Scores
from netdyno.records.trial import Change
from netdyno.trials import experiment as room
from netdyno.trials.experiment import Seen, Side, concluded, pair_of, prove, side_of

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


def rounds(*scores, losses=None):
    losses = losses or [None] * len(scores)
    return Scores(
        measure="accuracy",
        rounds=tuple(
            Round(at=10 * n + 10, score=score, loss=loss, rows=100)
            for n, (score, loss) in enumerate(zip(scores, losses, strict=True))
        ),
    )


def test_a_swinging_score_is_the_mean_of_its_last_quarter():
    side = side_of(Seen(scores=rounds(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.5)))
    assert side.score == pytest.approx(0.7)
    assert side.final == 0.5


def test_a_run_that_was_stopped_is_compared_up_to_the_updates_that_both_have():
    long = Seen(losses=(3.0,) * 20 + (1.0,) * 20, scores=rounds(0.2, 0.4, 0.6, 0.8), updates=40, ended=False)
    short = Seen(losses=(3.0,) * 20, scores=rounds(0.2, 0.4), updates=20, ended=False)
    one, other = pair_of(long, short)
    assert (one.loss, one.score) == (other.loss, other.score)


def test_runs_that_came_to_their_own_end_are_compared_as_they_are():
    one, other = pair_of(Seen(scores=rounds(0.2, 0.4), updates=20), Seen(scores=rounds(0.2, 0.4, 0.6), updates=30))
    assert other.score > one.score


def test_a_loss_that_was_lost_is_worse_than_the_rounds_before_it():
    lost = Seen(losses=(2.0, float("nan"), float("nan"), float("nan")), scores=rounds(0.5, losses=[0.7]))
    assert side_of(lost).held > 100


def test_overfitting_is_compared_by_the_held_out_loss():
    pairs = [(side(0.9)._replace(held=1.5 + 0.01 * n), side(0.9)._replace(held=0.6)) for n in range(5)]
    made = experiment(pairs, stage="outcome", layer="generalisation")
    assert (made.quantity, made.verdict) == ("held-out loss", "proven")


def test_where_the_score_has_reached_its_top_the_held_out_loss_may_show_it():
    pairs = [(side(0.99)._replace(held=1.5 + 0.01 * n), side(0.99)._replace(held=0.6)) for n in range(5)]
    assert experiment(pairs, stage="settings").quantity == "held-out loss"
    assert experiment(pairs, stage="loss").quantity == "accuracy"  # the fix changes what the loss is


def test_what_no_run_shows_is_not_called_undecided():
    ran = []
    lab = SimpleNamespace(ride=ran.append, plan=SimpleNamespace(seed=0), listener=print)
    made = prove(lab, finding(stage="use", layer="reproducibility"), CHANGE, updates=None)
    assert made.verdict == "failed"
    assert "no quantity to compare" in made.says
    assert not ran


def test_copies_of_one_pair_prove_nothing():
    made = experiment([(side(0.6), side(0.9))] * 5)
    assert made.verdict == "undecided"
    assert "no seed changes this script" in made.says


class Lab:
    """Runs nothing: what it answers is drawn."""

    plan = SimpleNamespace(seed=0)

    def __init__(self, drawn):
        self.drawn = drawn
        self.rides = 0

    def listener(self, _):
        pass

    def ride(self, **asked):
        self.rides += 1
        return self.drawn(asked.get("remedies") is not None)


@pytest.fixture(autouse=True)
def _rides_are_seen(monkeypatch):
    monkeypatch.setattr(room, "seen_in", lambda ride: ride)


def noisy(chance, *, helps=0.0, spread=0.02):
    def drawn(treated):
        score = chance.gauss(0.7 + helps * treated, spread)
        return Seen(
            losses=(2.0, chance.gauss(1.0, 0.1)),
            scores=rounds(score, losses=[chance.gauss(1.0, 0.1)]),
            seconds=chance.gauss(0.01, 0.002),
        )

    return drawn


def test_a_large_effect_ends_the_experiment_after_three_pairs():
    lab = Lab(noisy(random.Random(1), helps=0.2, spread=0.002))
    made = prove(lab, finding(), CHANGE, updates=None)
    assert (made.verdict, len(made.seeds), lab.rides) == ("proven", 3, 6)


def test_a_fix_without_effect_is_as_good_as_never_proven():
    """The winner of a few seeds: by chance alone no more often than the error that is allowed, over all looks and quantities."""
    chance = random.Random(16)
    verdicts = [
        prove(Lab(noisy(chance)), finding(stage=stage), CHANGE, updates=None, tries=tries).verdict
        for stage in ("order", "loss", "outcome")
        for tries in (1, 2)
        for _ in range(100)
    ]
    assert verdicts.count("proven") / len(verdicts) <= 0.025
    assert set(verdicts) <= {"proven", "undecided", "refuted"}


def test_a_remedy_that_did_not_take_hold_says_nothing_of_the_cause():
    chance, drawn = random.Random(2), {}

    def ride(lab):
        def seen(_):
            return drawn.setdefault((lab.rides - 1) // 2, noisy(chance)(treated=False))

        return seen

    lab = Lab(None)
    lab.drawn = ride(lab)
    made = prove(lab, finding(), CHANGE, updates=None)
    assert (made.verdict, len(made.seeds)) == ("undecided", 3)
    assert "did not take hold" in made.says


def test_an_evaluation_is_not_judged_by_training_batches():
    trained = Seen(losses=(2.0, 1.0), scores=Scores(measure="r2", train_last=0.6))
    other = Seen(losses=(2.0, 0.9), scores=Scores(measure="r2", train_last=0.5))
    made = experiment([pair_of(trained, other)] * 3, stage="use")
    assert made.verdict == "failed"
