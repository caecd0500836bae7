"""The three tiers, with the scripted cases of the ledger (A-005, E-074)."""

from netdyno.records.study import Candidate, Limits, Run
from netdyno.records.trial import Change
from netdyno.verdicts import objective, worth


def run(course=((1, 2.0, 0.1), (2, 1.0, 0.5)), failed=None):
    return Run(stage="optim", knob="k", recipe=(), seed=1, updates=2, batch_size=1, course=course, failed=failed)


def candidate(name, score, *, seconds=1.0, memory=100, latency=0.001, feasible=True):
    return Candidate(
        recipe=(Change(id=name),), score=score, seconds=seconds, bytes=memory, latency_s=latency, feasible=feasible,
        on_front=False,
    )  # fmt: skip


def test_what_falls_is_feasible_and_what_fails_or_stands_still_is_not():
    assert objective.feasible([run()]).ok
    assert not objective.feasible([run(), run(failed="it diverged")]).ok
    assert not objective.feasible([run(course=((1, 1.0, 0.5), (2, 1.2, 0.5)))]).ok
    assert not objective.feasible([]).ok
    assert objective.feasible([run()], gradient_norm=1.0).ok
    assert not objective.feasible([run()], gradient_norm=1e3).ok


def test_a_quicker_one_that_does_not_train_is_rejected():
    quick, slow = candidate("quick", 0.99, seconds=0.1, feasible=False), candidate("slow", 0.9)
    chosen, tier = objective.best([quick, slow], Limits())
    assert chosen == slow
    assert tier.ok


def test_the_best_score_under_the_limits_wins_and_a_broken_limit_is_named():
    best, small = candidate("best", 0.95, seconds=20, memory=900), candidate("small", 0.93)
    assert objective.best([best, small], Limits(seconds=10))[0] == small
    assert objective.best([best, small], Limits(bytes=500))[0] == small
    assert objective.best([best, small], Limits())[0] == best
    chosen, tier = objective.best([best], Limits(latency_s=1e-6))
    assert chosen is None
    assert "an answer takes" in tier.says


def test_the_front_holds_what_nothing_beats_in_all_respects():
    a, b, c = candidate("a", 0.9), candidate("b", 0.8), candidate("c", 0.7, seconds=0.5)
    judged = objective.judged([a, b, c], Limits())
    assert [one.on_front for one in judged] == [True, False, True]
    assert [one.feasible for one in objective.judged([a, c], Limits(seconds=0.6))] == [False, True]


# The ledger's bank (E-074): a higher F1 that alarms on more honest payments loses to a lower one with a person's review.
COSTS = ((0.0, 5.0), (100.0, 0.0))  # an honest payment that is blocked; a fraud that passes


def test_costs_overrule_a_score_that_is_a_little_higher():
    higher, lower = candidate("higher-f1", 0.845), candidate("review", 0.83)
    tables = {"higher-f1": [[8600, 1200], [10, 190]], "review": [[9700, 100], [30, 170]]}

    def value(one):
        return -worth.cost(tables[one.recipe[0].id], COSTS)

    chosen, tier = objective.worth_it([higher, lower], value, higher)
    assert chosen.recipe == lower.recipe
    assert tier.ok
    assert "it is taken" in tier.says
    dear = ((0.0, 5.0), (1000.0, 0.0))  # frauds that cost ten times as much flip the decision back
    chosen, _ = objective.worth_it([higher, lower], lambda one: -worth.cost(tables[one.recipe[0].id], dear), higher)
    assert chosen.recipe == higher.recipe
