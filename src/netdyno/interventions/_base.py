"""The room's own machinery: what an intervention is, and how a recipe becomes a changed subject."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar, Protocol

import psutil

from netdyno import plugins
from netdyno.records.evidence import AnyEvidence
from netdyno.records.trial import Change, Form, Numerics, Prediction
from netdyno.targets.subject import Subject

Facts = Mapping[type, Any]  # evidence by its type: facts.get(StepTimeline)


class Intervention(Protocol):
    """A change that can be tried and taken back. A frozen dataclass; its fields are its settings.

    `numerics` is the widest class that it can fall into: what turns out equal to the bit is never held to less.
    `stage` orders a recipe: data 0, model form 10, optimizer 20, numerics 30, compile 40, switches 50.
    Within the data, what replaces others comes first: batch transforms, cache, slicing, then the loader's settings.
    `form` is "processes" only when the change alters the process or its loader workers.
    `effort` is a person's minutes to adopt it and live with it: the walk tries gain per effort first.

    Three more may be declared where they are needed, and are read with a default:
    `environment` are environment variables that must be set before Python starts (then a fresh process);
    `seconds_to_try` is what a trial may cost beyond stepping (compilation, for instance);
    `items_factor` is how many times more items a step holds, so that a trial compares seconds per item.
    """

    layers: ClassVar[tuple[str, ...]]  # of data, compute, memory, optimisation, deployment (ledger A-001)
    numerics: ClassVar[Numerics]
    form: ClassVar[Form]
    stage: ClassVar[int]
    effort: ClassVar[float]
    memory_only: ClassVar[bool]  # True: costs time to save memory, proposed only under a memory goal

    def refuses(self, subject: Subject) -> str | None:
        """Why it makes no sense here, in words a user can read, or None. Runs nothing heavy, leaves no trace."""

    def predicts(self, facts: Facts) -> Prediction | None:
        """The share of a step it should save, from evidence; None when the evidence rules a gain out."""

    def settings(self, subject: Subject, facts: Facts) -> tuple["Intervention", ...]:
        """The settings worth racing against each other, best guess first. Usually `(self,)`."""

    def applied(self, subject: Subject) -> AbstractContextManager[Subject]:
        """The subject under the change; afterwards all is as it was: the same objects in the same storages.

        Without a step inside, that is to the byte. What was learned inside is the subject's own: parameters,
        running statistics and optimizer state keep their new values, in their old places.
        """

    def code(self) -> str:
        """The edit a person would make, one or a few lines of Python."""


@cache
def catalogue() -> dict[str, type[Intervention]]:
    """Every intervention class by id. The class is the file's name in CamelCase."""
    return {name: found for name, found in _scanned().items() if not isinstance(found, plugins.Broken)}


@cache
def broken() -> tuple[plugins.Broken, ...]:
    """The plug-ins that cannot be used, each with the reason: they are skipped aloud."""
    return tuple(found for found in _scanned().values() if isinstance(found, plugins.Broken))


@cache
def _scanned() -> dict[str, Any]:
    return plugins.classes("interventions")


def written(intervention: Intervention) -> Change:
    """The intervention as data."""
    fields = dataclasses.fields(intervention)  # type: ignore[arg-type]
    settings = {field.name: getattr(intervention, field.name) for field in fields}
    return Change(id=plugins.class_id(type(intervention)), settings=settings)


def read(change: Change) -> Intervention:
    """The intervention that a change stands for. Raises KeyError for an unknown id."""
    return catalogue()[change.id](**change.settings)


def ordered(recipe: Iterable[Change]) -> list[Intervention]:
    """The interventions of a recipe in the order in which they are applied."""
    return sorted((read(change) for change in recipe), key=lambda intervention: intervention.stage)


@contextlib.contextmanager
def applied(recipe: Iterable[Change], subject: Subject) -> Iterator[Subject]:
    """The subject under all changes of a recipe.

    A change may lean on another (samples can be cut from memory only where the random transform was moved to whole
    batches). Without the other it does nothing: what a recipe gains without one of its changes is measured on a program
    that still does all its work.
    """
    with contextlib.ExitStack() as stack:
        for intervention in ordered(recipe):
            subject = stack.enter_context(intervention.applied(subject))
        yield subject


def form_of(recipe: Iterable[Change]) -> Form:
    """ "processes" when any change of the recipe alters its process or has loader workers."""
    return "processes" if any(read(change).form == "processes" for change in recipe) else "in-process"


def environment_of(recipe: Iterable[Change]) -> dict[str, str]:
    """Environment variables that must be set before the recipe's process starts."""
    merged: dict[str, str] = {}
    for change in recipe:
        merged |= getattr(read(change), "environment", {})
    return merged


def items_factor_of(recipe: Iterable[Change]) -> float:
    """How many times more items a step of the recipe holds than a step of the original program."""
    factor = 1.0
    for change in recipe:
        factor *= getattr(read(change), "items_factor", 1.0)
    return factor


def facts_from(evidence: Iterable[AnyEvidence]) -> Facts:
    """Evidence by its type; the last of a kind wins."""
    return {type(item): item for item in evidence}


def free_memory() -> int:
    """Bytes that a new tenant of this machine may take: what the system has left, or the container's limit."""
    available = int(psutil.virtual_memory().available)
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        limit, used = int(_group("memory.max")), int(_group("memory.current"))
        # Files that were read once and can be dropped count as used, though they stand in nobody's way.
        droppable = dict(line.split() for line in _group("memory.stat").splitlines()).get("inactive_file", "0")
        available = min(available, max(0, limit - used + int(droppable)))
    return available


def _group(name: str) -> str:
    with open(f"/sys/fs/cgroup/{name}") as file:
        return file.read()


def megabytes(count: float) -> str:
    """For people: `3.2 MB`.

    >>> megabytes(3_200_000)
    '3.2 MB'
    """
    return f"{count / 1e6:,.1f} MB" if count < 1e8 else f"{count / 1e6:,.0f} MB"
