"""What experiments and source rules do to a diagnosis: findings gain or lose confidence, and are put in order again."""

import os
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from netdyno.records.base import Place
from netdyno.records.diagnosis import Experiment, Finding, Outcome

NOBODY: Mapping[str, tuple[str, ...]] = {}
Order = Callable[[Iterable[Outcome]], tuple[Outcome, ...]]

# A finding whose fix was proven is as sure as a measurement can make it; one whose fix helped nothing is a guess.
PROVEN, REFUTED = 0.99, 0.4
# What stands on the source is wrong however an experiment ends: it may be too short to show the harm.
CERTAIN = ("failure", "structure", "loss", "order", "use")
# A statement may span lines: the call that is watched and the form that is read need not begin on the same one.
NEAR = 2


def with_experiments(
    outcomes: Iterable[Outcome], experiments: Iterable[Experiment], order: Order
) -> tuple[Outcome, ...]:
    """The outcomes with what experiments showed: a proven suspicion is found, a refuted guess is one."""
    by_rule = {each.finding: each for each in experiments}
    return order(_tested(outcome, by_rule.get(outcome.rule)) for outcome in outcomes)


def _tested(outcome: Outcome, experiment: Experiment | None) -> Outcome:
    finding = outcome.finding
    if finding is None or experiment is None:
        return outcome
    if experiment.verdict == "proven":
        return replace(outcome, state="found", finding=replace(finding, confidence=max(PROVEN, finding.confidence)))
    if experiment.verdict == "refuted" and finding.stage not in CERTAIN:
        return replace(outcome, state="suspected", finding=replace(finding, confidence=REFUTED))
    return outcome


def merged(
    seen: Iterable[Outcome], read: Iterable[Outcome], order: Order, *, watchers: Mapping[str, tuple[str, ...]] = NOBODY
) -> tuple[Outcome, ...]:
    """What was seen in the run, and what was read in the source: about the same thing it is one finding, the seen one.

    Two witnesses of one thing make a suspicion a finding. A form that its `watchers` watched and cleared is no finding:
    what happened goes before what is written.
    """
    told = list(seen)
    for outcome in read:
        if outcome.finding is None:
            told.append(outcome)
            continue
        rules = (outcome.rule, *watchers.get(outcome.rule, ()))
        namesakes = [at for at, other in enumerate(told) if other.rule in rules]
        twins = [at for at in namesakes if told[at].finding is not None]
        twins += [at for at, other in enumerate(told) if _same(outcome.finding, other.finding)]
        if twins:
            told[twins[0]] = _witnessed(told[twins[0]], outcome)
            told.append(Outcome(rule=outcome.rule, state="clear", reason=f"told as `{told[twins[0]].rule}`"))
        elif any(told[at].state == "clear" for at in namesakes):
            told.append(
                Outcome(rule=outcome.rule, state="clear", reason=f"watched and cleared by {', '.join(rules[1:])}")
            )
        else:
            told.append(outcome)
    return order(told)


def _same(one: Finding | None, other: Finding | None) -> bool:
    if one is None or other is None or one.layer != other.layer or other.stage == "note":
        return False
    return near(one.where, other.where)


def near(one: Place | None, other: Place | None) -> bool:
    """True for two places that can only be about the same statement."""
    if one is None or other is None or not one.file or not other.file or one.line is None or other.line is None:
        return False
    return os.path.basename(one.file) == os.path.basename(other.file) and abs(one.line - other.line) <= NEAR


def _witnessed(seen: Outcome, read: Outcome) -> Outcome:
    finding = seen.finding
    assert finding is not None
    assert read.finding is not None
    sure = max(finding.confidence, read.finding.confidence)
    state = "found" if "found" in (seen.state, read.state) else seen.state
    return replace(seen, state=state, finding=replace(finding, confidence=sure))
