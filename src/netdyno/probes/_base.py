"""The room's own machinery: what a probe is, and how all of them run over one workload.

A probe is a file with one function, `collect`, marked with `@probe`:

    @probe
    def collect(subject: Subject, *, steps: int = 10, clock: Clock | None = None) -> StepTimeline: ...

It takes a subject and, by name, what it needs of `Pace`'s fields. Its docstring has three headings:

    Measures:         what the evidence says, and how it is got.
    Costs:            what collecting takes.
    Leaves no trace:  what it changes meanwhile, and how that is undone.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from types import ModuleType
from typing import NamedTuple, TypeVar, cast

import msgspec

from netdyno import plugins
from netdyno.errors import NetdynoError
from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Clock, Stopwatch, stopwatch_for, thread_clock
from netdyno.measure.untouched import random_state, untouched
from netdyno.progress import Event, Listener, silent
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import AnyEvidence, Evidence
from netdyno.records.record import Failure
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload

HEADINGS = ("Measures:", "Costs:", "Leaves no trace:")
PILOT = 2  # steps that are taken first, to learn how long one takes
FEWEST, MOST = 2, 40  # steps per probe: two say whether a number repeats, forty pin a median to a few per cent

Kind = TypeVar("Kind", bound=Evidence)
Changed = Callable[[Subject], AbstractContextManager[Subject]]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What a probe may ask for by name. `budget_s` is for this probe alone; `steps` fit into it."""

    workload: Workload
    ceilings: Ceilings | None
    clock: Clock
    steps: int
    budget_s: float


class Gathered(NamedTuple):
    """What the probes wrote down, and a sentence for each one that could not."""

    evidence: tuple[AnyEvidence, ...]
    failures: tuple[Failure, ...]


def probe(collect: Callable[..., Kind]) -> Callable[..., Kind]:
    """Marks a probe: afterwards the subject is as before, to the byte, and the evidence knows what it cost."""

    @functools.wraps(collect)
    def collected(subject: Subject, **given: object) -> Kind:
        clock = thread_clock()
        began = clock()
        with untouched(subject):
            found = collect(subject, **given)
        return msgspec.structs.replace(found, cost_s=(clock().wall - began.wall) / 1e9)

    return collected


def probes() -> dict[str, ModuleType | plugins.Broken]:
    """Every probe by id."""
    return dict(plugins.modules("probes"))


def gather(
    workload: Workload,
    *,
    seed: int = 0,
    ceilings: Ceilings | None = None,
    listener: Listener = silent,
    skip: Iterable[str] = (),
    only: Iterable[str] = (),
    budget_s: float = 12.0,
    clock: Clock | None = None,
    applied: Changed = contextlib.nullcontext,
) -> Gathered:
    """All probes over fresh copies of one workload, in about `budget_s`.

    `only` and `skip` are probe ids; `applied` puts changes on each copy. A probe that fails becomes a Failure and
    ends nothing. Where a single step takes longer than its share of the budget, two steps must do.
    """
    chosen = {name: module for name, module in probes().items() if (not only or name in only) and name not in skip}
    evidence: list[AnyEvidence] = []
    failures: list[Failure] = []
    clock = clock or thread_clock()
    share_s = budget_s / (len(chosen) + 1)
    with random_state():
        step_s = _pilot(workload, seed, applied)
        steps = round(min(MOST, max(FEWEST, share_s / max(step_s, 1e-6))))
        pace = Pace(workload=workload, ceilings=ceilings, clock=clock, steps=steps, budget_s=share_s)
        for done, (name, module) in enumerate(chosen.items()):
            listener(Event(f"probe {name}", done, len(chosen)))
            try:
                evidence.append(_collected(name, module, seed=seed, pace=pace, applied=applied))
            except Exception as error:
                failures.append(Failure(step="gather", says=f"the probe `{name}` could not finish: {_reason(error)}"))
        listener(Event("probes", len(chosen), len(chosen)))
    return Gathered(tuple(evidence), tuple(failures))


def asked_for(collect: Callable[..., object], pace: Pace) -> dict[str, object]:
    """The part of a pace that a probe's signature names."""
    names = inspect.signature(collect).parameters
    return {item.name: getattr(pace, item.name) for item in fields(pace) if item.name in names}


def watch_for(subject: Subject, clock: Clock | None) -> Stopwatch:
    """The stopwatch that fits the subject's device, reading `clock` where the host's time is meant."""
    watch = stopwatch_for(subject.device)
    if clock is not None:
        watch.clock = clock
    return watch


def _collected(
    name: str, module: ModuleType | plugins.Broken, *, seed: int, pace: Pace, applied: Changed
) -> AnyEvidence:
    if isinstance(module, plugins.Broken):
        raise NetdynoError(
            f"probe `{name}` cannot be imported", because=module.says, hint="look at the file, or remove the plug-in"
        )
    with applied(pace.workload.fresh(seed)) as subject:
        return cast(AnyEvidence, module.collect(subject, **asked_for(module.collect, pace)))


def _pilot(workload: Workload, seed: int, applied: Changed) -> float:
    """Wall seconds of a step, the first one left out. A target that cannot be stepped raises here."""
    with applied(workload.fresh(seed)) as subject:
        stepper = Stepper(subject, stopwatch_for(subject.device))
        try:
            stepper.take(1)
            return stepper.take(PILOT).time.wall / PILOT
        finally:
            stepper.close()


def _reason(error: Exception) -> str:
    return (
        f"{error.what}, because {error.because}"
        if isinstance(error, NetdynoError)
        else f"{type(error).__name__}: {error}"
    )
