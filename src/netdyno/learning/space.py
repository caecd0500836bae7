"""What a search over many knobs can turn: the settings that knobs offer, as choices and as numbers between two bounds."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from netdyno.knobs._base import turned, written
from netdyno.learning.sweep import with_change
from netdyno.learning.trainings import Trainings
from netdyno.records.trial import Change

# How far beyond the settings that a knob offers the search may go, either way.
BEYOND = 3.0

Recipe = tuple[Change, ...]


class Dimension(NamedTuple):
    """What may vary of a knob: one of several settings, or its only number between two bounds on a log axis."""

    knob: str
    changes: tuple[Change, ...]
    field: str | None = None
    low: float = 0.0
    high: float = 0.0


def space(
    kinds: dict[str, type[Any]],
    trainings: Trainings,
    recipe: Recipe,
    *,
    also: Sequence[Recipe] = (),
    longest: float | None = None,
) -> tuple[Dimension, ...]:
    """What knobs offer on top of a recipe, and their settings in the recipes `also`.

    A setting with which a training takes more than `longest` updates is not offered, as a quarter of the batch size over as many epochs does.
    """
    setup = turned(recipe, trainings.setup)
    found = []
    for name, kind in kinds.items():
        # A knob's first setting may make no sense where another does: each is asked.
        changes = [written(one) for one in kind().settings(setup) if one.refuses(setup) is None]
        if longest is not None:
            changes = [one for one in changes if turned((one,), setup).updates <= longest]
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


def expressible(recipe: Recipe, space: Sequence[Dimension]) -> bool:
    """Whether the space has all of a recipe's settings."""
    there = {dimension.knob: dimension for dimension in space}
    return all(
        change.id in there and (there[change.id].field is not None or change in there[change.id].changes)
        for change in recipe
    )


def distinct(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Recipes that change something, each once."""
    return tuple(one for at, one in enumerate(recipes) if one and one not in recipes[:at])
