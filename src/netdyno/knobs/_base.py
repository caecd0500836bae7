"""The room's own machinery: what a knob is, and how a recipe of settings becomes the way a training run is made."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from netdyno import plugins
from netdyno.records.study import Stage
from netdyno.records.trial import Change
from netdyno.targets.subject import Batch
from netdyno.targets.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How one training run is made. A knob gives back a changed copy (`dataclasses.replace`); nothing is edited.

    model:      () -> Module, called under the run's seed.
    optimizer:  (module) -> Optimizer; its own learning rates are the base that `lr_factor` multiplies.
    schedule:   (optimizer, updates) -> an LRScheduler stepped after every update, or None.
    loss:       (output, batch) -> scalar Tensor, for training. Validation always uses the workload's own loss and metric.
    forward:    (module, batch) -> output.
    mix:        transforms of a placed training batch, in order (CutMix, Cutout): batch -> batch.
    before_step: called with (module, optimizer) between backward and step: clipping.
    batch_size, updates: of the run. `augment`: whether the declared augmentation is on.
    stop:       (course so far) -> True to end the run; `best`: give back the weights of the lowest validation loss.
    """

    workload: Workload
    model: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], Any]
    loss: Callable[[Any, Batch], Tensor]
    forward: Callable[[nn.Module, Batch], Any]
    batch_size: int
    updates: int
    schedule: Callable[[Any, int], Any] | None = None
    mix: tuple[Callable[[Batch], Batch], ...] = ()
    before_step: tuple[Callable[[nn.Module, Any], None], ...] = ()
    augment: bool = True
    augment_with: Callable[[Any], Any] | None = None
    sampler: Any = None
    stop: Callable[[list[tuple[int, float, float]]], bool] | None = None
    best: bool = False
    teacher: nn.Module | None = None


class Knob(Protocol):
    """One choice. A frozen dataclass; its fields are its settings; a file `knobs/weight_decay.py` holds the class `WeightDecay`.

    `stage` is the stage of the search in which it may be moved. `reason` says what it does to the system (ledger A-006).
    `effort_min` is a person's minutes to adopt it. `order` places it in a recipe: what replaces others comes first.
    """

    stage: ClassVar[Stage]
    reason: ClassVar[str]
    asks: ClassVar[str]
    effort_min: ClassVar[float]
    order: ClassVar[int]

    def refuses(self, setup: Setup) -> str | None:
        """Why it makes no sense here, in words a user can read, or None."""

    def settings(self, setup: Setup) -> tuple["Knob", ...]:
        """The settings to try against what stands now, best guess first."""

    def turned(self, setup: Setup) -> Setup:
        """The way to train with this setting."""

    def code(self) -> str:
        """What a person would write: one or a few lines of Python."""


@cache
def catalogue() -> dict[str, type[Any]]:
    """Every knob class by id. The class is the file's name in CamelCase."""
    return {name: found for name, found in _scanned().items() if not isinstance(found, plugins.Broken)}


@cache
def broken() -> tuple[plugins.Broken, ...]:
    """The plug-ins that cannot be used, each with the reason: they are skipped aloud."""
    return tuple(found for found in _scanned().values() if isinstance(found, plugins.Broken))


@cache
def _scanned() -> dict[str, Any]:
    return plugins.classes("knobs")


def written(knob: Knob) -> Change:
    """The setting as data."""
    fields = dataclasses.fields(knob)  # type: ignore[arg-type]
    settings = {field.name: getattr(knob, field.name) for field in fields}
    return Change(id=plugins.class_id(type(knob)), settings=settings)


def read(change: Change) -> Knob:
    """The setting that a change stands for. Raises KeyError for an unknown id."""
    return catalogue()[change.id](**change.settings)


def turned(recipe: Iterable[Change], setup: Setup) -> Setup:
    """The way to train with all settings of a recipe."""
    for knob in sorted((read(change) for change in recipe), key=lambda one: type(one).order):
        setup = knob.turned(setup)
    return setup
