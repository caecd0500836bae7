"""The room's own machinery: what an intervention is, and how a recipe becomes a changed subject."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, ClassVar, Protocol

from netdyno import plugins
from netdyno.records.evidence import AnyEvidence
from netdyno.records.trial import Change, Form, Numerics, Prediction
from netdyno.targets.subject import Subject

Facts = Mapping[type, Any]  # evidence by its type: facts.get(StepTimeline)


class Intervention(Protocol):
    """A change that can be tried and taken back. A frozen dataclass; its fields are its settings.

    `stage` orders a recipe: data 0, model form 10, optimizer 20, numerics 30, compile 40, switches 50.
    `form` is "processes" only when the change alters the process or its loader workers;
    `environment` are environment variables that must be set before Python starts (then a fresh process).
    `effort` is a person's minutes to adopt it and live with it: the walk tries gain per effort first.
    `seconds_to_try` is what a trial costs beyond stepping (compilation, for instance); 0 if nothing.
    """

    layers: ClassVar[tuple[str, ...]]  # of data, compute, memory, optimisation, deployment (ledger A-001)
    numerics: ClassVar[Numerics]
    form: ClassVar[Form]
    stage: ClassVar[int]
    effort: ClassVar[float]
    memory_only: ClassVar[bool]  # True: costs time to save memory, proposed only under a memory goal

    def refuses(self, subject: Subject) -> str | None:
        """Why it makes no sense here, in words a user can read, or None. Runs nothing heavy."""

    def predicts(self, facts: Facts) -> Prediction | None:
        """The share of a step it should save, from evidence; None when the evidence rules a gain out."""

    def settings(self, subject: Subject, facts: Facts) -> tuple["Intervention", ...]:
        """The settings worth racing against each other, best guess first. Usually `(self,)`."""

    def applied(self, subject: Subject) -> AbstractContextManager[Subject]:
        """The subject under the change; afterwards everything is as it was, to the byte."""

    def code(self) -> str:
        """The edit a person would make, one or a few lines of Python."""


@cache
def catalogue() -> dict[str, type[Intervention]]:
    """Every intervention class by id. The class is the file's name in CamelCase."""
    found: dict[str, type[Intervention]] = {}
    for name, module in plugins.modules("interventions"):
        if isinstance(module, plugins.Broken):
            continue
        found[name] = getattr(module, "".join(part.capitalize() for part in name.split("-")))
    return found


def written(intervention: Intervention) -> Change:
    """The intervention as data."""
    fields = dataclasses.fields(intervention)  # type: ignore[arg-type]
    name = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in type(intervention).__name__)
    return Change(id=name.lstrip("-"), settings={field.name: getattr(intervention, field.name) for field in fields})


def read(change: Change) -> Intervention:
    """The intervention that a change stands for. Raises KeyError for an unknown id."""
    return catalogue()[change.id](**change.settings)


def ordered(recipe: Iterable[Change]) -> list[Intervention]:
    """The interventions of a recipe in the order in which they are applied."""
    return sorted((read(change) for change in recipe), key=lambda intervention: intervention.stage)


@contextlib.contextmanager
def applied(recipe: Iterable[Change], subject: Subject) -> Iterator[Subject]:
    """The subject under all changes of a recipe."""
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


def facts_from(evidence: Iterable[AnyEvidence]) -> Facts:
    """Evidence by its type; the last of a kind wins."""
    return {type(item): item for item in evidence}
