"""What to do about overfitting, in order: first whether the two sides are alike at all, then what adds knowledge, then what holds back.

No regulariser is offered before the test of the split has run, and none while it says that the sides differ: what looks like overfitting
is then the distance between two kinds of data, and no regulariser closes it.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from netdyno.records.diagnosis import Outcome
from netdyno.records.measured import Interval
from netdyno.records.study import Run
from netdyno.stats.spread import t_interval

# The audit that asks whether a classifier can tell the splits apart, and those that find other reasons why they differ.
SPLIT_TEST = "covariate-shift"
OTHER_TESTS = ("label-shift", "leaked-duplicates", "leaked-groups", "leaked-time", "split-scaling", "early-statistics")

# A validation loss that ends within a hundredth of its best is as good as there: no rung of the ladder is worth its work.
MATTERS = 0.01
# Fewer evaluations have no course in which a best place can be told from the last.
FEWEST_LOOKS = 5
# Two seeds leave an interval from which nothing is ever told; three give it the factor 4.3.
FEWEST_SEEDS = 3

Step = Literal["split", "knowledge", "regulariser"]


class Action(NamedTuple):
    """One rung: what to do, and the knob that does it where there is one."""

    step: Step
    does: str
    because: str
    knob: str = ""


class Advice(NamedTuple):
    """The actions in order, and in a sentence why these. No action is an answer too."""

    says: str
    actions: tuple[Action, ...] = ()
    rise: Interval | None = None


KNOWLEDGE = (
    Action(
        "knowledge", "distil from a better model", "a teacher tells more of each sample than one label", "distillation"
    ),
    Action("knowledge", "smooth the labels", "answers that are right are not pushed to certainty", "label-smoothing"),
    Action("knowledge", "mix images and labels", "no single part of an image is enough any more", "cut-mix"),
)
REGULARISERS = (
    Action("regulariser", "stop where validation was best", "what came after was learned by heart", "early-stopping"),
    Action("regulariser", "raise the weight decay", "large weights are what learning by heart needs", "weight-decay"),
    Action("regulariser", "drop features before the last layer", "no single feature can be relied on", "dropout"),
)


def ladder(
    outcomes: Iterable[Outcome], *, runs: Sequence[Run] = (), level: float = 0.95, asked: bool = False
) -> Advice:
    """What to do, given what the audits of the data concluded and how runs of one recipe went, one per seed.

    `asked` means that somebody is sure of the overfitting; else it has to show in the runs.
    """
    by_rule = {outcome.rule: outcome for outcome in outcomes}
    rise = rises(runs, level=level)
    if not asked:
        if rise is None:
            return Advice("nobody can tell whether it overfits: that takes three seeds with five evaluations each")
        if rise.low <= 0:
            return Advice(
                "no overfitting is seen: the validation loss rises by no more than the noise between seeds", rise=rise
            )
        if rise.middle < MATTERS * _lowest(runs):
            return Advice("the validation loss ends within a hundredth of its best: there is nothing to win", rise=rise)
    test = by_rule.get(SPLIT_TEST)
    if test is None or test.state in {"skipped", "failed"}:
        why = "has not run" if test is None else f"{test.state}: {test.reason or 'no reason given'}"
        first = Action(
            "split", "test whether the splits are alike", "what looks like overfitting may be a shift", SPLIT_TEST
        )
        return Advice(f"the test of the split {why}; nothing else is offered before it", (first,), rise)
    known = [by_rule[rule] for rule in (SPLIT_TEST, *OTHER_TESTS) if rule in by_rule]
    differing = [one for one in known if one.finding is not None and one.finding.stage != "note"]
    if differing:
        return Advice("the splits differ: mend them first, then look again", tuple(map(_mend, differing)), rise)
    return Advice("the splits are alike: from the top, each tried alone", (*KNOWLEDGE, *REGULARISERS), rise)


def _mend(outcome: Outcome) -> Action:
    finding = outcome.finding
    assert finding is not None
    return Action("split", finding.fix, finding.says, outcome.rule)


def _lowest(runs: Sequence[Run]) -> float:
    """The mean over runs of the lowest validation loss."""
    return fmean(min(loss for _, loss, _ in run.course) for run in runs if run.failed is None)


def rises(runs: Sequence[Run], *, level: float = 0.95) -> Interval | None:
    """How much the validation loss rises from its best place to the end, over seeds; None where nobody can tell.

    The best place of each run is read off the other runs: a run's own lowest point lies low by luck, and every run would seem to rise.
    """
    courses = [[loss for _, loss, _ in run.course] for run in runs if run.failed is None]
    if len(courses) < FEWEST_SEEDS or len({len(course) for course in courses}) != 1 or len(courses[0]) < FEWEST_LOOKS:
        return None
    changes = []
    for at, course in enumerate(courses):
        others = [other for number, other in enumerate(courses) if number != at]
        means = [fmean(losses) for losses in zip(*others, strict=True)]
        changes.append(course[-1] - course[means.index(min(means))])
    return t_interval(changes, level)
