"""The walk of one look at data: open, describe, judge by every audit, draw. Whatever is known is handed on before the next step."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from netdyno import __version__
from netdyno.audits import _serving
from netdyno.audits._base import View, audited
from netdyno.audits._pictures import neighbours, splits
from netdyno.audits._profile import profile
from netdyno.audits._views import NOTHING, SAMPLE, Named, opened
from netdyno.progress import Event, Listener, silent
from netdyno.records.audit import Audit
from netdyno.records.diagnosis import STAGES, Outcome

Keep = Callable[[Audit], object]
Clock = Callable[[], float]


def examine(
    target: str,
    *,
    id: str,  # noqa: A002 - the name it has in the document
    named: Named = NOTHING,
    beside: Mapping[str, Any] | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    keep: Keep = lambda _: None,
    listener: Listener = silent,
    command: str = "",
    clock: Clock = time.monotonic,
) -> Audit:
    """All that a look at the data gives. `keep` gets the document after every step, so that a crash loses one step.

    `beside` are notes of the View that the user named: a policy, a vocabulary, a way of serving.

    Raises NetdynoError when the target cannot be read; what an audit does wrong is an outcome and ends nothing.
    """
    began = clock()
    listener(Event("reading the data"))
    view = opened(target, named=named, sample=sample, seed=seed)
    view = dataclasses.replace(view, notes={**view.notes, **_noted(view, dict(beside or {}))})
    return looked_at(view, id=id, keep=keep, listener=listener, command=command, clock=clock, began=began)


def _noted(view: View, beside: dict[str, Any]) -> dict[str, Any]:
    ways: dict[str, Any] = {name: beside.pop(name) for name in ("serving", "training") if name in beside}
    return {**beside, **(_serving.beside(view, ways) if "serving" in ways else {})}


def looked_at(
    view: View,
    *,
    id: str,  # noqa: A002
    keep: Keep = lambda _: None,
    listener: Listener = silent,
    command: str = "",
    clock: Clock = time.monotonic,
    began: float | None = None,
) -> Audit:
    """The same for data that are open already."""
    began = clock() if began is None else began
    known = Audit(
        id=id,
        made_by=f"netdyno {__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        target=view.target,
        seed=view.seed,
    )

    def step(**fields: Any) -> None:
        nonlocal known
        known = replace(known, wall_s=clock() - began, **fields)
        keep(known)

    listener(Event("describing the data"))
    step(profile=profile(view))
    # Ordering leaves only what was found of what a finding explains, so the whole is put in order anew each time.
    plain: list[Outcome] = []
    for outcome in audited(view, listener=listener):
        plain.append(outcome)
        step(outcomes=ordered(plain))
    listener(Event("drawing the splits"))
    step(pictures=_drawn(view), finished=True)
    return known


def _drawn(view: View) -> dict[str, str]:
    # A picture proves nothing, so what is in its way (a split without samples, texts without letters) costs only the picture.
    found = {}
    for name, draw in (("splits", splits), ("neighbours", neighbours)):
        with suppress(Exception):
            found[name] = draw(view)
    return found


def ordered(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Findings first, the root cause in front and what it explains behind it; then what failed, was skipped, and is clear."""
    everything = tuple(outcomes)
    told = sorted((each for each in everything if each.finding is not None), key=_rank)
    silence = {"failed": 0, "skipped": 1, "clear": 2}
    rest = sorted((each for each in everything if each.finding is None), key=lambda one: (silence[one.state], one.rule))
    return (*_folded(told), *rest)


def _rank(outcome: Outcome) -> tuple[Any, ...]:
    finding = outcome.finding
    assert finding is not None
    return (
        finding.stage == "note",
        outcome.state != "found",
        STAGES.index(finding.stage),
        -finding.confidence,
        outcome.rule,
    )


def _folded(told: list[Outcome]) -> list[Outcome]:
    """Each cause with its consequences behind it. A suspicion explains nothing: what is sure does not go below a guess."""
    left = {each.rule: each for each in told}
    names = {each.rule: _explained(each) & left.keys() - {each.rule} for each in told}
    below = set().union(*names.values()) if names else set()
    order: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        if left.pop(outcome.rule, None) is None:
            return
        order.append(outcome)
        for each in told:
            if each.rule in names[outcome.rule]:
                tell(each)

    # Two that explain each other have no root between them: the second pass takes the higher one.
    for outcome in (*(each for each in told if each.rule not in below), *told):
        tell(outcome)
    return [_explaining(each, names[each.rule]) for each in order]


def _explained(outcome: Outcome) -> set[str]:
    assert outcome.finding is not None
    return set(outcome.finding.explains) if outcome.state == "found" else set()


def _explaining(outcome: Outcome, names: set[str]) -> Outcome:
    assert outcome.finding is not None
    return replace(outcome, finding=replace(outcome.finding, explains=tuple(sorted(names))))
