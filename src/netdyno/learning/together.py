"""The last search: all knobs of all stages at once, from what the stages found, raced over seeds and confirmed as a whole."""

from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from netdyno.knobs._base import catalogue
from netdyno.learning import joint, rate_sweep
from netdyno.learning.portfolio import portfolio
from netdyno.learning.space import Recipe, distinct
from netdyno.learning.sweep import FRESH, RACED, confirm, in_words, with_change
from netdyno.learning.trainings import Trainings
from netdyno.records.study import Option, Study, StudyPlan, Sweep
from netdyno.records.trial import Change
from netdyno.verdicts import study as verdicts

JOINT = "joint search"
# Of its time, at least this part searches; the rest goes to the race of what it found, and to putting passengers out.
SEARCHED = 0.6
# Trials have one seed: more of them find more, and the best few race on the others.
JOINT_SEEDS = 1
MOST_JOINT = 5000
FINALISTS = 12
# Of the time behind the search, what the race may take.
RACE = 0.75
# Runs behind the search: the race of its finalists, one change after the other left out.
AFTER_SEARCH = 60
# So many times its training must fit into the budget for a recipe to be looked at: what is found also races and is proven.
AFFORDABLE = 30
RATE = "learning-rate"
# Between two recipes that are both proven better than the start, the one with more changes goes out where it is likelier the better
# one by three to one: half of an interval's chance lies to either side of it.
LIKELIER = 0.5


def proof_seeds(plan: StudyPlan) -> list[int]:
    """Other seeds than those that confirmed the sweeps, and chose the recipe by that. The start has run under them from the beginning."""
    return [2 * FRESH + seed for seed in plan.seeds]


def found(
    trainings: Trainings, kinds: dict[str, type[Any]], study: Study, *, left_s: float, folder: Path
) -> tuple[Recipe, dict[str, float]]:
    """The recipe that the search, a race of its finalists and the leaving out of passengers end with, and what each change is worth in it."""
    plan, staged, now = study.plan, study.recipe, trainings.clock()
    left_s = max(0.0, left_s - len(plan.seeds) * trainings.expected_s())  # its own side of the proof
    trainings.deadline = now + max(SEARCHED * left_s, left_s - AFTER_SEARCH * trainings.expected_s())
    chooses, others = plan.seeds[0], plan.seeds[JOINT_SEEDS:]
    rate = _walked(trainings, study, kinds, chooses)
    first = distinct(staged, likely(study), rate)
    trusted = portfolio(kinds, trainings.setup, rate or _rate_of(staged))
    ranked = joint.search(
        trainings, kinds, (), stage="optim", seeds=(chooses,), name=study.id, folder=folder, seed=plan.seed,
        trials=MOST_JOINT, first=((), *first, *trusted), near=((), *first, *trusted), longest=_longest(trainings, plan),
    )  # fmt: skip
    trainings.deadline = now + left_s
    racing = max(0.0, RACE * (trainings.seconds_left() or 0.0))
    count = joint.affordable(trainings, ranked, first=chooses, most=FINALISTS, seconds=racing)
    racers = distinct(*ranked[: max(2, count)], staged)
    best = joint.best_of_several(trainings, racers, first=chooses, stage="optim", seeds=others)
    return joint.without_passengers(trainings, best or staged, (), stage="optim", seeds=others[:RACED])


def _longest(trainings: Trainings, plan: StudyPlan) -> float:
    """Updates of the longest training that is affordable, by the start's own time: a search that goes on later has the same space."""
    took = fmean([run.seconds for run in trainings.of(()) if run.seed in proof_seeds(plan)] or [trainings.expected_s()])
    left_s = plan.budget_s - 2 * len(plan.seeds) * took  # the start has run, and the proof will
    return max(1.0, left_s / AFFORDABLE / max(1e-9, took)) * trainings.setup.updates


def _rate_of(recipe: Recipe) -> Recipe:
    return tuple(change for change in recipe if change.id == RATE)


def _walked(trainings: Trainings, study: Study, kinds: dict[str, type[Any]], seed: int) -> Recipe:
    """The start at the rate that a range test suggests, where no sweep has asked for the rate; a walk costs about as much as a training."""
    asked = any(each.knob == RATE and each.verdict != "not run" for each in study.sweeps)
    if asked or RATE not in kinds:
        return ()
    factor = rate_sweep.suggested(trainings, seed)
    return (Change(id=RATE, settings={"factor": factor}),) if factor is not None else ()


def likely(study: Study) -> Recipe:
    """The staged recipe and every setting that looked better in its sweep, proven or not: where a search may begin."""
    recipe = study.recipe
    for each in study.sweeps:
        if each.verdict == "kept":
            continue
        seen = [
            one
            for one in each.options
            if one.change is not None and one.effect is not None and len(one.scores) >= RACED
        ]
        best = max(seen, key=lambda one: one.effect.middle if one.effect is not None else 0.0, default=None)
        if best is not None and best.change is not None and best.effect is not None and best.effect.middle > 0:
            recipe = with_change(recipe, best.change)
    return recipe


def confirmed(trainings: Trainings, study: Study, found: Recipe, worth: dict[str, float], *, level: float) -> Study:
    """The study with that recipe's proof against the start, and with the recipe where it goes out."""
    plan = study.plan
    fresh = proof_seeds(plan)
    start, after = confirm(
        trainings, (), found, fresh, level=level, stage="optim", knob="joint", least_gain=plan.least_gain
    )
    effect = verdicts.effect(start, after, level)
    proven = verdicts.is_better(effect, pairs=len(start.keys() & after.keys()), least_gain=plan.least_gain)
    staged = trainings.scores(study.recipe, sorted(after), stage="optim", knob="joint") if proven else start
    beyond = verdicts.effect(staged, after, plan.level)
    kept = proven and _likelier(staged, after, plan.least_gain)
    options = (
        Option(change=None, says="as it is written", scores=tuple(start.values()), mean=_mean(start)),
        *(
            Option(
                change=change, says=f"{change.id} {in_words(change)}{_worth(worth.get(change.id))}",
                scores=tuple(after.values()), mean=_mean(after), effect=effect,
            )
            for change in found
        ),
    )  # fmt: skip
    says = f"all {len(found)} changes together: {_ranged(effect)} against the start"
    if study.recipe and proven:
        told = beyond is not None and not beyond.low <= 0 <= beyond.high
        says += f", {_ranged(beyond)} against what the stages kept{'' if told else ', which is inside the noise'}"
    sweep_ = Sweep(
        knob=JOINT, stage="optim", asks="do knobs of all stages together win more than one by one?",
        reason="moves what leans on each other: a rate that suits one batch size does not suit another", options=options,
        seeds=tuple(fresh), verdict="kept" if kept else "no better" if verdicts.is_no_better(effect) else "not distinguishable",
        says=says, updates=trainings.setup.updates, effort_min=sum(catalogue()[change.id].effort_min for change in found) or 1.0,
    )  # fmt: skip
    return replace(study, sweeps=(*study.sweeps, sweep_), recipe=found if kept else study.recipe)


def _likelier(staged: dict[int, float], after: dict[int, float], least_gain: float) -> bool:
    found = verdicts.effect(staged, after, LIKELIER)
    return found is not None and found.low > least_gain


def _worth(lost: float | None) -> str:
    return f"; without it {-lost:+.4g} where it was chosen" if lost is not None else ""


def _ranged(found: Any) -> str:
    return f"{found.middle:+.4g} ({found.low:+.4g} to {found.high:+.4g})" if found is not None else "no pair of runs"


def _mean(scores: dict[int, float]) -> float | None:
    return fmean(scores.values()) if scores else None
