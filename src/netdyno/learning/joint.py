"""Many knobs at once, by Optuna: what one knob at a time cannot find."""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from netdyno.knobs._base import Setup, read, turned, written
from netdyno.learning.sweep import race, with_change
from netdyno.learning.trainings import TimeIsUpError, Trainings
from netdyno.progress import Event
from netdyno.records.study import Run, Stage
from netdyno.records.trial import Change
from netdyno.verdicts import study as verdicts

# How far beyond the settings that a knob offers the search may go, either way.
BEYOND = 3.0
# Trials before TPE begins to draw conclusions; the first are spread out.
SPREAD = 10
# A recipe that warms up is behind at its first evaluations, and not for that worse at its end: nobody is given up before so many.
PATIENCE = 2
# So many trials in a row that were made before: the space is small, and searched.
REPEATED = 20
# Seeds on which a change is left out of a recipe before it stays in for good.
LEAST_SEEDS = 2

Recipe = tuple[Change, ...]


class Dimension(NamedTuple):
    """What may vary of a knob: one of several settings, or its only number between two bounds on a log axis."""

    knob: str
    changes: tuple[Change, ...]
    field: str | None = None
    low: float = 0.0
    high: float = 0.0


def unavailable() -> str | None:
    """Why there is no joint search, or None."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        return "optuna is not installed: `pip install 'netdyno[learn]'`"
    return None


def space(
    kinds: dict[str, type[Any]], trainings: Trainings, recipe: Recipe, *, also: Sequence[Recipe] = ()
) -> tuple[Dimension, ...]:
    """What knobs offer on top of a recipe, and their settings in the recipes `also`."""
    setup = turned(recipe, trainings.setup)
    found = []
    for name, kind in kinds.items():
        # A knob's first setting may make no sense where another does: each is asked.
        changes = [written(one) for one in kind().settings(setup) if one.refuses(setup) is None]
        there = [change for other in also for change in other if change.id == name]
        if changes or there:
            found.append(_dimension(name, kind, changes, there))
    return tuple(found)


def _dimension(name: str, kind: type[Any], changes: Sequence[Change], there: Sequence[Change]) -> Dimension:
    numbers = [each.name for each in dataclasses.fields(kind) if each.type in (float, "float")]
    varying = [
        field for change in changes[:1] for field in change.settings if len({c.settings[field] for c in changes}) > 1
    ]
    if len(varying) == 1 and varying[0] in numbers and len(changes) > 2:
        values = [float(change.settings[varying[0]]) for change in changes]  # type: ignore[arg-type]
        if min(values) > 0 and max(values) / min(values) >= 3:
            return Dimension(name, tuple(changes), varying[0], min(values) / BEYOND, max(values) * BEYOND)
    return Dimension(
        name, (*changes, *(change for at, change in enumerate(there) if change not in (*changes, *there[:at])))
    )


def drawn(trial: Any, space: Sequence[Dimension], recipe: Recipe) -> Recipe:
    """A recipe that an Optuna trial suggests; "as it stands" is among the choices of each knob."""
    for dimension in space:
        if dimension.field is not None:
            moved = trial.suggest_categorical(f"{dimension.knob}?", [False, True])
            # Asked also where it is not moved: TPE sees numbers together only that are there in every trial.
            value = trial.suggest_float(dimension.knob, dimension.low, dimension.high, log=True)
            if moved:
                settings = {**dimension.changes[0].settings, dimension.field: float(f"{value:.3g}")}
                recipe = with_change(recipe, Change(id=dimension.changes[0].id, settings=settings))
        else:
            at = trial.suggest_categorical(dimension.knob, list(range(-1, len(dimension.changes))))
            if at >= 0:
                recipe = with_change(recipe, dimension.changes[at])
    return recipe


def asked(recipe: Recipe, space: Sequence[Dimension]) -> dict[str, Any]:
    """What a trial has to draw to suggest that recipe."""
    there = {change.id: change for change in recipe}
    found: dict[str, Any] = {}
    for dimension in space:
        change = there.get(dimension.knob)
        if dimension.field is None:
            found[dimension.knob] = dimension.changes.index(change) if change in dimension.changes else -1
            continue
        found[f"{dimension.knob}?"] = change is not None
        value: Any = math.sqrt(dimension.low * dimension.high) if change is None else change.settings[dimension.field]
        found[dimension.knob] = min(dimension.high, max(dimension.low, float(value)))
    return found


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
) -> tuple[Recipe, ...]:
    """Recipes that TPE finds, the highest mean score over `seeds` first; it begins with those in `first`.

    Runs that were made before under the first seed, by sweeps, count as trials: TPE draws its conclusions from them too. The trials lie in a file in `folder`, and a search that was cut short goes on with them. Trials end early where others were
    better by then. It claims nothing: the scores chose, and who wants to keep what it finds confirms it on fresh seeds.
    """
    dimensions = space(kinds, trainings, recipe, also=first)
    study = _study(f"{name}-{sha256(str(dimensions).encode()).hexdigest()[:8]}", folder, seed=seed)
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
        if run.seed == seed and run.score is not None and run.course and _expressible(run.recipe, space):
            trial = create_trial(
                params=asked(run.recipe, space), distributions=distributions, value=run.score,
                intermediate_values={at + 1: score for at, (_, _, score) in enumerate(run.course)},
                user_attrs={"recipe": _as_data(run.recipe)},
            )  # fmt: skip
            study.add_trial(trial)


def _expressible(recipe: Recipe, space: Sequence[Dimension]) -> bool:
    there = {dimension.knob: dimension for dimension in space}
    return all(
        change.id in there and (there[change.id].field is not None or change in there[change.id].changes)
        for change in recipe
    )


def _as_data(recipe: Recipe) -> list[dict[str, Any]]:
    return [{"id": change.id, "settings": change.settings} for change in recipe]


def _study(name: str, folder: Path, *, seed: int) -> Any:
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
            pruner=optuna.pruners.MedianPruner(n_startup_trials=SPREAD, n_warmup_steps=PATIENCE),
        )  # fmt: skip


def best_of_several(
    trainings: Trainings, recipes: Sequence[Recipe], control: Recipe, *, stage: Stage, seeds: Sequence[int]
) -> Recipe:
    """Of recipes that one seed put first, the one that is best over others: half are left behind with each seed; the control is among them.

    The best of many scores under one seed is lucky as a rule: its neighbours on the list train as well.
    """
    with suppress(TimeIsUpError):
        race(trainings, recipes, control, seeds, stage=stage, knob="joint")
    there = [control, *(one for one in recipes if one != control)]
    scores = {
        at: {seed: score for seed, score in trainings.known_scores(one).items() if seed in seeds}
        for at, one in enumerate(there)
    }
    best = verdicts.best_of(scores)
    return there[best] if best is not None else control


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
