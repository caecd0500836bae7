"""The room's own machinery: what a rule is, how all of them run, and in which order their findings are told."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from netdyno import plugins
from netdyno.records.base import Place
from netdyno.records.diagnosis import STAGES, Finding, Outcome, Stage
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.evidence import AnyEvidence, ScriptTrace, ThreadUse
from netdyno.records.record import Baseline

# A finding this sure is called found; below it, it is a suspicion that an experiment has to settle.
SURE = 0.7

# A fifth of the time without a core is more than the housekeeping of any quiet machine.
SPINS = 0.20

# Seconds of a whole script: reading about less takes longer than it would save. But a short script that is a small
# copy of a long one must not hide what takes a good part of it.
WORTH_S, WORTH_SHARE, BOUND_SHARE = 1.0, 0.15, 0.7

Check = Callable[..., Finding | None]
Facts = Mapping[type, Any]


class Need(NamedTuple):
    """One parameter of a rule: the record it stands for, and whether the rule can do without it."""

    name: str
    kind: type
    optional: bool


class Rule(NamedTuple):
    """A rule found in the room: its id is its file's name, its needs are its signature."""

    id: str
    check: Check
    needs: tuple[Need, ...]
    suggests: tuple[str, ...]
    stage: Stage = "speed"


def rule(*, suggests: tuple[str, ...] = (), stage: Stage = "speed") -> Callable[[Check], Check]:
    """Marks the function of a rule's file. `suggests` are ids of interventions that may cure the finding.

    `stage` is its place in the chain of causes: a finding of an earlier stage is told before one of a later stage, and
    symptoms ("dynamics", "outcome") that were found beside it are folded under it. What costs time or memory only is
    "speed"; "bound" says where time goes and not what wastes it: every program is bound by something, so it takes more to
    be worth a word. What a program is bound by in its "nature" is a saving to try in a workload that is tuned, and in a
    script that is examined a "note": a remark, as those about the surroundings are.

    What the rule needs is its signature: each parameter is annotated with a kind of evidence, or with
    Environment, Ceilings or Baseline. `X | None` is used when it is there; a missing `X` skips the rule, aloud.
    """

    def mark(check: Check) -> Check:
        check.suggests = suggests  # type: ignore[attr-defined]
        check.stage = stage  # type: ignore[attr-defined]
        return check

    return mark


def needs_of(check: Check) -> tuple[Need, ...]:
    """What a rule's signature asks for."""
    hints = typing.get_type_hints(check)
    return tuple(_need(name, hints[name]) for name in inspect.signature(check).parameters)


def _need(name: str, hint: Any) -> Need:
    if not isinstance(hint, types.UnionType):
        return Need(name, hint, optional=False)
    (kind,) = (part for part in typing.get_args(hint) if part is not type(None))
    return Need(name, kind, optional=True)


def rules() -> tuple[Rule | plugins.Broken, ...]:
    """All rules of the room and of other packages, in order of their ids."""
    return tuple(_from(name, module) for name, module in plugins.modules("rules"))


def _from(name: str, module: types.ModuleType | plugins.Broken) -> Rule | plugins.Broken:
    if isinstance(module, plugins.Broken):
        return module
    check = getattr(module, name.replace("-", "_"), None)
    if check is None or not hasattr(check, "suggests"):
        return plugins.Broken(name, f"its file declares no function `{name.replace('-', '_')}` marked with @rule")
    return Rule(name, check, needs_of(check), check.suggests, check.stage)


def spinning(threads: ThreadUse | None) -> bool:
    """True when threads that wait for each other at barriers lack cores: then even running time is too long."""
    return threads is not None and threads.torch_threads > 1 and threads.waiting_share >= SPINS


def diagnose(
    evidence: Iterable[AnyEvidence],
    environment: Environment | None = None,
    ceilings: Ceilings | None = None,
    baseline: Baseline | None = None,
) -> tuple[Outcome, ...]:
    """What every rule concludes, silence included: findings first, root causes before what they explain."""
    facts = facts_from(evidence, environment, ceilings, baseline)
    return in_order(judged(each, facts) for each in rules())


def facts_from(
    evidence: Iterable[AnyEvidence],
    environment: Environment | None = None,
    ceilings: Ceilings | None = None,
    baseline: Baseline | None = None,
) -> Facts:
    """What is known, by its type. The last evidence of a kind wins."""
    known: dict[type, Any] = {type(item): item for item in evidence}
    known |= {type(item): item for item in (environment, ceilings, baseline) if item is not None}
    return known


def judged(each: Rule | plugins.Broken, facts: Facts) -> Outcome:
    """What became of one rule."""
    if isinstance(each, plugins.Broken):
        return Outcome(rule=each.id, state="failed", reason=f"it cannot be imported: {each.says}")
    missing = [need.kind.__name__ for need in each.needs if not need.optional and need.kind not in facts]
    if missing:
        return Outcome(rule=each.id, state="skipped", reason=f"no {' and no '.join(missing)} was collected")
    try:
        finding = each.check(**{need.name: facts.get(need.kind) for need in each.needs})
    except Exception as error:
        return Outcome(rule=each.id, state="failed", reason=f"{type(error).__name__}: {error}")
    if finding is None:
        return Outcome(rule=each.id, state="clear")
    stage = each.stage
    if stage == "nature":
        stage = "note" if ScriptTrace in facts else "speed"
    little = too_little(msgspec.structs.replace(finding, stage=stage), facts.get(ScriptTrace))
    if little is not None:
        return Outcome(rule=each.id, state="clear", reason=little)
    named = msgspec.structs.replace(
        finding, id=each.id, suggests=finding.suggests or each.suggests, stage=stage,
        where=on_its_line(finding.where, facts.get(ScriptTrace)),
    )  # fmt: skip
    return Outcome(rule=each.id, state="found" if finding.confidence >= SURE else "suspected", finding=named)


def first_place(trace: ScriptTrace | None, kind: str) -> Place | None:
    """The first line of a script where a kind of thing was seen."""
    places = trace.places.get(kind, ()) if trace is not None else ()
    return places[0] if places else None


def on_its_line(where: Place | None, trace: ScriptTrace | None) -> Place | None:
    """A place that names a part of a model, with the line that initialised that weight or constructed that module.

    Of a part that nobody saw made, it is the line of the nearest part around it.
    """
    if where is None or trace is None or where.line is not None or not where.module:
        return where
    made = {one.module: one for kind in ("modules", "weights") for one in trace.places.get(kind, ())}
    name = where.module
    while name and name not in made:
        name = name.rpartition(".")[0]
    return msgspec.structs.replace(where, file=made[name].file, line=made[name].line) if name else where


def too_little(finding: Finding, trace: ScriptTrace | None) -> str | None:
    """Why a finding that costs time is not told: the script was watched to its own end, and all of it is next to nothing.

    What is wrong costs no time (`saves.high` 0) and is told however short the script is.
    """
    if trace is None or trace.stopped != "ended" or not finding.saves.high:
        return None
    most_s = finding.saves.high * trace.span_s
    if most_s >= WORTH_S or finding.saves.high >= (BOUND_SHARE if finding.stage in ("bound", "note") else WORTH_SHARE):
        return None
    return f"it could save {most_s:.2g} s at most of the whole script"


def in_order(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Outcomes as a reader wants them: findings, suspicions, then failed, skipped, clear rules.

    Of findings the earliest in the chain of causes comes first: what is wrong goes before what is slow, and of slow
    things the largest recoverable saving is in front. What a finding explains follows it at once, and `explains` then
    names only what was really found.
    """
    everything = sorted(outcomes, key=lambda outcome: outcome.rule)
    told = [outcome for outcome in everything if outcome.finding is not None]
    silent = [outcome for outcome in everything if outcome.finding is None]
    order = {"failed": 0, "skipped": 1, "clear": 2}
    silent.sort(key=lambda outcome: order[outcome.state])
    return (*_folded(told), *silent)


def _folded(told: list[Outcome]) -> list[Outcome]:
    ranked = sorted(told, key=_rank)
    left = {outcome.rule: outcome for outcome in ranked}
    explained = {name for outcome in ranked for name in _explains(outcome, ranked) if name != outcome.rule}
    ordered: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        if left.pop(outcome.rule, None) is None:
            return
        here = len(ordered)
        ordered.append(outcome)
        below = [left[name] for name in _explains(outcome, ranked) if name in left]
        for each in sorted(below, key=_rank):
            tell(each)
        told_below = tuple(each.rule for each in ordered[here + 1 :])
        ordered[here] = _explaining(outcome, told_below)

    # Two findings that explain each other have no root between them: the second pass takes the larger one.
    for outcome in (*(each for each in ranked if each.rule not in explained), *ranked):
        tell(outcome)
    return ordered


# What follows from causes, and is no cause of anything else that has a rule.
SYMPTOMS = ("dynamics", "outcome")


def _rank(outcome: Outcome) -> tuple[bool, bool, int, float, float, float, str]:
    finding = outcome.finding
    assert finding is not None
    return (
        finding.stage in ("speed", "bound", "nature", "note") and finding.saves.high == 0,
        outcome.state != "found",
        STAGES.index(finding.stage),
        -finding.saves.high,
        -finding.saves.low,
        -finding.confidence,
        outcome.rule,
    )


def _explains(outcome: Outcome, told: list[Outcome]) -> tuple[str, ...]:
    finding = outcome.finding
    assert finding is not None
    # A suspicion explains nothing: what is proven does not go below what is guessed.
    if outcome.state != "found":
        return ()
    if finding.stage in ("use", "speed", "bound", "nature", "note"):
        return finding.explains
    symptoms = (
        other.rule
        for other in told
        if other.finding is not None
        and other.finding.stage in SYMPTOMS
        and STAGES.index(other.finding.stage) > STAGES.index(finding.stage)
    )
    return (*finding.explains, *symptoms)


def _explaining(outcome: Outcome, names: tuple[str, ...]) -> Outcome:
    assert outcome.finding is not None
    return msgspec.structs.replace(outcome, finding=msgspec.structs.replace(outcome.finding, explains=names))
