"""Many knobs at once, by Optuna: what one knob at a time cannot find."""

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from netdyno.knobs._base import Setup, read
from netdyno.learning.proposals import SPREAD, Done, Proposals
from netdyno.learning.space import Dimension, Recipe, asked, drawn, expressible, space
from netdyno.learning.sweep import ranked_on
from netdyno.learning.trainings import TimeIsUpError, Trainings
from netdyno.progress import Event
from netdyno.records.study import Run, Stage
from netdyno.records.trial import Change

# A recipe that warms up is behind at its first evaluations, and not for that worse at its end: nobody is given up before so many.
PATIENCE = 2
# Trials near recipes that stand are mostly as good as these: only the best so many per cent at a point of their course go on.
KEPT = 40.0
MEDIAN = 50.0
# So many trials in a row that were made before: the space is small, and searched.
REPEATED = 20
# Seeds on which a change is left out of a recipe before it stays in for good.
LEAST_SEEDS = 2


def unavailable() -> str | None:
    """Why there is no joint search, or None."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        return "optuna is not installed: `pip install 'netdyno[learn]'`"
    return None


def sensible(recipe: Recipe, setup: Setup) -> Recipe:
    """The recipe less what refuses to stand beside the rest of it: a warm-up beside one-cycle, which rises by itself."""
    kept = []
    for change, knob in sorted(((each, read(each)) for each in recipe), key=lambda pair: pair[1].order):
        if knob.refuses(setup) is None:
            kept.append(change)
            setup = knob.turned(setup)
    return tuple(change for change in recipe if change in kept)


def search(
    trainings: Trainings,
    kinds: dict[str, type[Any]],
    recipe: Recipe,
    *,
    stage: Stage,
    seeds: Sequence[int],
    name: str,
    folder: Path,
    seed: int,
    trials: int,
    first: Sequence[Recipe] = (),
    near: Sequence[Recipe] = (),
    longest: float | None = None,
) -> tuple[Recipe, ...]:
    """Recipes that TPE finds, the highest mean score over `seeds` first; it begins with those in `first`.

    With `near`, its trials are a few knobs away from those recipes at first, and from the best so far later on, and TPE draws only the rest
    of them (`proposals`). Recipes of more than `longest` updates are not among them. Runs that were made before under the first seed, by
    sweeps, count as trials: TPE draws its conclusions from them too. The trials lie in a file in `folder`, and a search that was cut short
    goes on with them. Trials end early where others were better by then. It claims nothing: the scores chose, and who wants to keep what it
    finds confirms it on fresh seeds.
    """
    dimensions = space(kinds, trainings, recipe, also=(*first, *near), longest=longest)
    looks = Proposals(dimensions, [asked(one, dimensions) for one in near], seed=seed) if near else None
    study = _study(
        f"{name}-{sha256(str(dimensions).encode()).hexdigest()[:8]}", folder, seed=seed, kept=KEPT if near else MEDIAN
    )
    if not study.trials:
        _remember(study, dimensions, trainings.runs, seeds[0])
        for one in first:
            study.enqueue_trial(asked(one, dimensions))
    import optuna

    over = False

    def objective(trial: Any) -> float:
        nonlocal over
        mine = sensible(drawn(trial, dimensions, recipe), trainings.setup)
        trial.set_user_attr("recipe", _as_data(mine))
        scores: list[float] = []
        for number, one in enumerate(seeds):
            try:
                run = _made(trainings, mine, one, stage, trial if number == 0 else None)
            except TimeIsUpError:
                over = True
                raise optuna.TrialPruned from None
            if run.score is None:
                if run.failed is not None and run.failed.startswith("given up"):
                    raise optuna.TrialPruned
                return -math.inf if not scores else min(scores)
            scores.append(run.score)
        return fmean(scores)

    done = len([each for each in study.trials if each.state.is_finished()])
    fruitless = 0
    for number in range(done, trials):
        trainings.listener(Event("searching many knobs at once", number, trials))
        before = len(trainings.runs)
        if looks is not None and number >= len(first):
            _propose(study, looks, number)
        study.optimize(objective, n_trials=1)
        fruitless = fruitless + 1 if len(trainings.runs) == before else 0
        if over or fruitless == REPEATED:
            break
    whole = [each for each in study.trials if each.value is not None and math.isfinite(each.value)]
    whole.sort(key=lambda each: -(each.value or 0.0))
    ranked: list[Recipe] = []
    for each in whole:
        one = tuple(Change(id=change["id"], settings=change["settings"]) for change in each.user_attrs["recipe"])
        if one not in ranked:
            ranked.append(one)
    return tuple(ranked)


def _propose(study: Any, looks: Proposals, number: int) -> None:
    whole = [Done(each.params, each.value) for each in study.get_trials(deepcopy=False) if each.value is not None]
    proposed = looks.next(number, [each for each in whole if math.isfinite(each.score)])
    if proposed is not None:
        study.enqueue_trial(proposed)


def _remember(study: Any, space: Sequence[Dimension], runs: Sequence[Run], seed: int) -> None:
    """Whole runs under that seed as trials, where the space has their settings."""
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.trial import create_trial

    distributions: dict[str, BaseDistribution] = {}
    for one in space:
        if one.field is None:
            distributions[one.knob] = CategoricalDistribution(list(range(-1, len(one.changes))))
        else:
            distributions[f"{one.knob}?"] = CategoricalDistribution([False, True])
            distributions[one.knob] = FloatDistribution(one.low, one.high, log=True)
    for run in runs:
        if run.seed == seed and run.score is not None and run.course and expressible(run.recipe, space):
            trial = create_trial(
                params=asked(run.recipe, space), distributions=distributions, value=run.score,
                intermediate_values={at + 1: score for at, (_, _, score) in enumerate(run.course)},
                user_attrs={"recipe": _as_data(run.recipe)},
            )  # fmt: skip
            study.add_trial(trial)


def _as_data(recipe: Recipe) -> list[dict[str, Any]]:
    return [{"id": change.id, "settings": change.settings} for change in recipe]


def _study(name: str, folder: Path, *, seed: int, kept: float) -> Any:
    """An Optuna study in a file of lines: with SQLite a trial of some thirty numbers costs as much as a short training."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Drawing numbers together is what finds rates that suit batch sizes; Optuna calls that an experiment.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.create_study(
            study_name=name, storage=optuna.storages.JournalStorage(JournalFileBackend(str(folder / "joint.log"))),
            load_if_exists=True, direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=SPREAD, multivariate=True),
            pruner=optuna.pruners.PercentilePruner(kept, n_startup_trials=SPREAD, n_warmup_steps=PATIENCE),
        )  # fmt: skip


def best_of_several(
    trainings: Trainings, recipes: Sequence[Recipe], *, first: int, stage: Stage, seeds: Sequence[int]
) -> Recipe | None:
    """Of recipes that the seed `first` ranked, the one that is best over all seeds: with each of `seeds` half are left behind.

    The best of many scores under one seed is lucky as a rule: its neighbours on the list train as well. Where time runs out, or a recipe fails on a
    seed, those decide that came to the end of the same seeds.
    """
    left, seen = list(recipes), [first]
    with suppress(TimeIsUpError):
        for seed in seeds:
            seen.append(seed)
            doing = f"racing the best, seed {len(seen)} of {len(seeds) + 1}"
            left = ranked_on(trainings, left, seen, stage=stage, knob="joint", doing=doing)
            left = left[: max(2, math.ceil(len(left) / 2))]
    return left[0] if left else None


def affordable(trainings: Trainings, ranked: Sequence[Recipe], *, first: int, most: int, seconds: float) -> int:
    """How many of them can race over more seeds in that time, as they took under the seed `first`: two seeds each, about, with halving."""
    spent, count = 0.0, 0
    for recipe in ranked[:most]:
        took = (run.seconds for run in trainings.of(recipe) if run.seed == first)
        spent += 2 * next(took, trainings.expected_s())
        if spent > seconds:
            break
        count += 1
    return count


def without_passengers(
    trainings: Trainings, found: Recipe, recipe: Recipe, *, stage: Stage, seeds: Sequence[int]
) -> tuple[Recipe, dict[str, float]]:
    """What a joint search found, less the changes that win nothing in it, and what each that stays is worth in it.

    TPE sets every knob, whether it matters or not. One change after the other is taken back to what `recipe` has; where the mean
    score over `seeds` is no lower without it, it stays away. What is left is confirmed as a whole.
    """
    worth: dict[str, float] = {}
    for change in [each for each in found if each not in recipe]:
        before = [each for each in recipe if each.id == change.id]
        less = (*(each for each in found if each.id != change.id), *before)
        try:
            lost = _lost(trainings, found, less, stage=stage, seeds=seeds)
        except TimeIsUpError:
            break
        if lost is not None and lost <= 0:
            found = less
        elif lost is not None:
            worth[change.id] = lost
    return found, worth


def _lost(trainings: Trainings, whole: Recipe, less: Recipe, *, stage: Stage, seeds: Sequence[int]) -> float | None:
    """What is lost without a change on average, asked until it is clear that it is needed; None where `less` fails on a seed."""
    lost: list[float] = []
    for seed in seeds:
        with_it, without = (trainings.run(one, seed, stage=stage, knob="joint").score for one in (whole, less))
        if without is None:
            return None
        lost.append(with_it - without if with_it is not None else -math.inf)
        if len(lost) >= LEAST_SEEDS and min(lost) > 0:
            break
    return fmean(lost)


def _made(trainings: Trainings, recipe: Recipe, seed: int, stage: Stage, trial: Any) -> Run:
    def hopeless(course: list[tuple[int, float, float]]) -> bool:
        trial.report(course[-1][2], len(course))
        return bool(trial.should_prune())

    return trainings.run(recipe, seed, stage=stage, knob="joint", prune=hopeless if trial is not None else None)
