"""Several knobs of a stage at once, by Optuna: what one knob at a time cannot find."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from netdyno.knobs._base import turned, written
from netdyno.learning.sweep import with_change
from netdyno.learning.trainings import TimeIsUpError, Trainings
from netdyno.progress import Event
from netdyno.records.study import Run, Stage
from netdyno.records.trial import Change

# How far beyond the settings that a knob offers the search may go, either way.
BEYOND = 3.0
# Trials before TPE begins to draw conclusions; the first are spread out.
SPREAD = 5


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


def space(kinds: dict[str, type[Any]], trainings: Trainings, recipe: tuple[Change, ...]) -> tuple[Dimension, ...]:
    """What the knobs of a stage offer on top of a recipe."""
    setup = turned(recipe, trainings.setup)
    found = []
    for name, kind in kinds.items():
        # A knob's first setting may make no sense where another does: each is asked.
        changes = tuple(written(one) for one in kind().settings(setup) if one.refuses(setup) is None)
        if changes:
            found.append(_dimension(name, kind, changes))
    return tuple(found)


def _dimension(name: str, kind: type[Any], changes: tuple[Change, ...]) -> Dimension:
    numbers = [each.name for each in dataclasses.fields(kind) if each.type in (float, "float")]
    varying = [field for field in changes[0].settings if len({change.settings[field] for change in changes}) > 1]
    if len(varying) == 1 and varying[0] in numbers and len(changes) > 2:
        values = [float(change.settings[varying[0]]) for change in changes]  # type: ignore[arg-type]
        if min(values) > 0 and max(values) / min(values) >= 3:
            return Dimension(name, changes, varying[0], min(values) / BEYOND, max(values) * BEYOND)
    return Dimension(name, changes)


def drawn(trial: Any, space: Sequence[Dimension], recipe: tuple[Change, ...]) -> tuple[Change, ...]:
    """A recipe that an Optuna trial suggests; "as it stands" is among the choices of each knob."""
    for dimension in space:
        if dimension.field is not None:
            moved = trial.suggest_categorical(f"{dimension.knob}?", [False, True])
            if moved:
                value = trial.suggest_float(dimension.knob, dimension.low, dimension.high, log=True)
                settings = {**dimension.changes[0].settings, dimension.field: float(f"{value:.3g}")}
                recipe = with_change(recipe, Change(id=dimension.changes[0].id, settings=settings))
        else:
            at = trial.suggest_categorical(dimension.knob, list(range(-1, len(dimension.changes))))
            if at >= 0:
                recipe = with_change(recipe, dimension.changes[at])
    return recipe


def search(
    trainings: Trainings,
    kinds: dict[str, type[Any]],
    recipe: tuple[Change, ...],
    *,
    stage: Stage,
    seeds: Sequence[int],
    name: str,
    folder: Path,
    seed: int,
    trials: int,
) -> tuple[Change, ...]:
    """The recipe with the highest mean score over `seeds` that TPE finds; the given one where it finds none.

    The study lies in an SQLite file in `folder`, and a search that was cut short goes on with it. Trials end early where
    others were better by then. It claims nothing: who wants to keep what it finds confirms it on fresh seeds.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=f"{name}-{stage}", storage=f"sqlite:///{folder / 'joint.sqlite3'}", load_if_exists=True,
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=SPREAD),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=SPREAD),
    )  # fmt: skip
    dimensions = space(kinds, trainings, recipe)

    over = False

    def objective(trial: Any) -> float:
        nonlocal over
        mine = drawn(trial, dimensions, recipe)
        trial.set_user_attr("recipe", [{"id": change.id, "settings": change.settings} for change in mine])
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
    for number in range(done, trials):
        trainings.listener(Event(f"searching the stage {stage} jointly", number, trials))
        study.optimize(objective, n_trials=1)
        if over:
            break
    whole = [each for each in study.trials if each.value is not None and math.isfinite(each.value)]
    if not whole:
        return recipe
    best = max(whole, key=lambda each: each.value or 0.0)
    return tuple(Change(id=each["id"], settings=each["settings"]) for each in best.user_attrs["recipe"])


def without_passengers(
    trainings: Trainings, found: tuple[Change, ...], recipe: tuple[Change, ...], *, stage: Stage, seeds: Sequence[int]
) -> tuple[Change, ...]:
    """What a joint search found, less the changes that win nothing in it: TPE sets every knob, whether it matters or not.

    One change after the other is taken back to what `recipe` has; where the mean score over `seeds` is no lower without it,
    it stays away. What is left is confirmed as a whole.
    """
    for change in [each for each in found if each not in recipe]:
        before = [each for each in recipe if each.id == change.id]
        less = (*(each for each in found if each.id != change.id), *before)
        try:
            scores, others = (trainings.scores(each, seeds, stage=stage, knob="joint") for each in (less, found))
        except TimeIsUpError:
            break
        if len(scores) == len(seeds) and (len(others) < len(seeds) or fmean(scores.values()) >= fmean(others.values())):
            found = less
    return found


def _made(trainings: Trainings, recipe: tuple[Change, ...], seed: int, stage: Stage, trial: Any) -> Run:
    def hopeless(course: list[tuple[int, float, float]]) -> bool:
        trial.report(course[-1][2], len(course))
        return bool(trial.should_prune())

    return trainings.run(recipe, seed, stage=stage, knob="joint", prune=hopeless if trial is not None else None)
