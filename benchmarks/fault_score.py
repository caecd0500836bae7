"""How answers to faulty and healthy programs are scored, and when a fault counts as harm: pure arithmetic, no runs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

SLOW_STAGES = ("speed", "bound", "nature")  # costs time or memory; a chance rather than a fault
QUIET_STAGES = ("note",)  # a remark about the surroundings is no alarm
NEAR = 1  # lines: the statement beside the one that was changed is as good a place
COVERAGES = (0.80, 0.90, 0.95)
PROGRAM = "train.py"  # what every program of the bench is called, so that its name tells nothing


class Told(NamedTuple):
    """One finding that was told, suspicions and remarks left out."""

    rule: str
    layer: str = ""
    stage: str = ""
    confidence: float = 1.0
    high: float = 0.0
    explains: tuple[str, ...] = ()
    file: str = ""
    line: int | None = None
    module: str | None = None
    sample: int | None = None
    step: int | None = None


class Truth(NamedTuple):
    """What is true of a faulty program. `causes` are its accepted sets of rules, one set for each fault in it."""

    causes: tuple[frozenset[str], ...]
    lines: tuple[int, ...] = ()
    located: bool = False
    layer: str = ""
    module: str | None = None
    sample: int | None = None
    step: int | None = None
    near: tuple[int, ...] = ()  # lines one step from them: what uses a changed name, calls what was changed


class Mark(NamedTuple):
    """How one answer to a faulty program did. `place` is None where the truth has no place or nothing right was named."""

    answered: bool
    detected: bool
    first: str
    first_layer: str
    top1: bool
    top3: bool
    lenient: bool
    causes: int
    named: int  # causes that were named
    wrong: int  # findings that name no cause and are not told as a symptom of another finding
    symptoms: int  # findings that name no cause and are told as symptoms
    place: bool | None
    confidence: float
    on_change: bool = False  # the place is within a line of the change itself
    offers: int = 0  # of the wrong ones, those that offer time or memory and name no fault


def told(outcomes: Iterable[Mapping[str, Any]]) -> tuple[Told, ...]:
    """The findings as they are told, first causes first: found ones only, remarks about the machine left out."""
    return tuple(
        _told(one["rule"], one["finding"])
        for one in outcomes
        if one.get("state") == "found" and one.get("finding") and one["finding"].get("stage") not in QUIET_STAGES
    )


def _told(rule: str, finding: Mapping[str, Any]) -> Told:
    where = finding.get("where") or {}
    return Told(
        rule=rule,
        layer=finding.get("layer", ""),
        stage=finding.get("stage", ""),
        confidence=finding.get("confidence", 1.0),
        high=(finding.get("saves") or {}).get("high", 0.0),
        explains=tuple(finding.get("explains") or ()),
        file=where.get("file") or "",
        line=where.get("line"),
        module=where.get("module"),
        sample=where.get("sample"),
        step=where.get("step"),
    )


def mark(findings: Sequence[Told], truth: Truth, *, answered: bool = True) -> Mark:
    """Holds what was told against the truth.

    >>> mark([Told("softmax-before-loss")], Truth((frozenset({"softmax-before-loss"}),))).top1
    True
    >>> mark([Told("dead-units"), Told("softmax-before-loss")], Truth((frozenset({"softmax-before-loss"}),))).top1
    False
    """
    accepted = frozenset().union(*truth.causes)
    right = [one for one in findings if one.rule in accepted]
    folded = {name for one in findings for name in one.explains}
    others = [one for one in findings if one.rule not in accepted]
    first = findings[0] if findings else None
    return Mark(
        answered=answered,
        detected=bool(findings),
        first=first.rule if first else "",
        first_layer=first.layer if first else "",
        top1=first is not None and first.rule in accepted,
        top3=any(one.rule in accepted for one in findings[:3]),
        lenient=bool(right),
        causes=len(truth.causes),
        named=sum(any(one.rule in cause for one in findings) for cause in truth.causes),
        wrong=sum(one.rule not in folded for one in others),
        symptoms=sum(one.rule in folded for one in others),
        place=_placed(right, truth),
        on_change=bool(_placed(right, truth._replace(near=()))),
        confidence=first.confidence if first else 0.0,
        offers=sum(one.rule not in folded and one.stage in SLOW_STAGES for one in others),
    )


def _placed(right: Sequence[Told], truth: Truth) -> bool | None:
    asked = (truth.located and truth.lines) or truth.module or truth.sample is not None or truth.step is not None
    if not asked or not right:
        return None
    return any(is_there(one, truth) for one in right)


def is_there(one: Told, truth: Truth) -> bool:
    """Whether a finding points at the truth's place: within a line of what was changed, at a line one step from it, or at
    its module, sample or step.

    >>> is_there(Told("x", file="train.py", line=12), Truth((), lines=(13,), located=True))
    True
    >>> is_there(Told("x", file="model.py", line=13), Truth((), lines=(13,), located=True))
    False
    """
    here = one.file.replace("\\", "/").rsplit("/", 1)[-1] in ("", PROGRAM)
    by_line = one.line is not None and here and any(abs(one.line - line) <= NEAR for line in truth.lines)
    by_line = by_line or (here and one.line in truth.near)
    by_name = truth.module is not None and one.module == truth.module
    by_sample = truth.sample is not None and one.sample == truth.sample
    by_step = truth.step is not None and one.step == truth.step
    return by_line or by_name or by_sample or by_step


class Share(NamedTuple):
    """So many of so many."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share, 0 of nothing."""
        return self.hits / self.of if self.of else 0.0

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval, which is honest near 0 and 1."""
        return wilson(self.hits, self.of)

    def __str__(self) -> str:
        if not self.of:
            return "none"
        low, high = self.interval()
        return f"{self.hits}/{self.of} = {self.value:.1%} ({low:.0%}–{high:.0%})"


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of a share.

    >>> [round(end, 3) for end in wilson(0, 36)]
    [0.0, 0.096]
    """
    if not of:
        return 0.0, 1.0
    p, n = hits / of, of
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


class Totals(NamedTuple):
    """The marks of many faulty programs, together.

    `precision_all` counts symptoms that were told as wrong too, `precision_faults` leaves offers of time and memory out.
    """

    programs: int
    answered: int
    detected: Share
    top1: Share
    top3: Share
    lenient: Share
    precision: float
    precision_all: float
    precision_faults: float
    recall: float
    f1: float
    placed: Share


def totals(marks: Sequence[Mark]) -> Totals:
    """What the marks come to; programs without an answer count as missed."""
    named, causes = sum(each.named for each in marks), sum(each.causes for each in marks)
    wrong, symptoms = sum(each.wrong for each in marks), sum(each.symptoms for each in marks)
    precision = named / (named + wrong) if named + wrong else 0.0
    recall = named / causes if causes else 0.0
    faults = wrong - sum(each.offers for each in marks)
    placed = [each.place for each in marks if each.place is not None]

    def share(name: str) -> Share:
        return Share(sum(getattr(each, name) for each in marks), len(marks))

    return Totals(
        programs=len(marks),
        answered=sum(each.answered for each in marks),
        detected=share("detected"),
        top1=share("top1"),
        top3=share("top3"),
        lenient=share("lenient"),
        precision=precision,
        precision_all=named / (named + wrong + symptoms) if named + wrong + symptoms else 0.0,
        precision_faults=named / (named + faults) if named + faults else 0.0,
        recall=recall,
        f1=2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        placed=Share(sum(placed), len(placed)),
    )


class Alarms(NamedTuple):
    """What was said of healthy programs. `wrong` are alarms that something is wrong, `slow` offers of time or memory."""

    programs: int
    any: Share
    wrong: Share
    slow: Share
    per_rule: dict[str, int]
    updates: int
    findings: int

    @property
    def per_1000_updates(self) -> float:
        """Findings for each thousand updates of healthy programs."""
        return 1000 * self.findings / self.updates if self.updates else 0.0


def alarms(answers: Sequence[tuple[Sequence[Told], int]]) -> Alarms:
    """Of healthy programs, each with its findings and updates: any finding at all is an alarm.

    >>> alarms([((), 100), ((Told("dead-units", stage="dynamics"),), 100)]).any.hits
    1
    """
    number = len(answers)
    bad = [any(one.stage not in SLOW_STAGES for one in findings) for findings, _ in answers]
    slow = [any(one.stage in SLOW_STAGES for one in findings) for findings, _ in answers]
    return Alarms(
        programs=number,
        any=Share(sum(bool(findings) for findings, _ in answers), number),
        wrong=Share(sum(bad), number),
        slow=Share(sum(slow), number),
        per_rule=dict(Counter(one.rule for findings, _ in answers for one in findings).most_common()),
        updates=sum(updates for _, updates in answers),
        findings=sum(len(findings) for findings, _ in answers),
    )


def selective(marks: Sequence[Mark], coverage: float) -> float | None:
    """Of the surest part of the programs, the share named right; None when fewer than that were given any finding."""
    wanted = math.ceil(coverage * len(marks))
    surest = sorted((each for each in marks if each.detected), key=lambda each: -each.confidence)
    if not wanted or len(surest) < wanted:
        return None
    return sum(each.top1 for each in surest[:wanted]) / wanted


def confusion(pairs: Iterable[tuple[str, str]]) -> dict[str, Counter[str]]:
    """For each true section, how often the first finding lay in which layer."""
    table: dict[str, Counter[str]] = {}
    for section, layer in pairs:
        table.setdefault(section, Counter())[layer or "nothing"] += 1
    return table


def worse_by_ranks(faulty: Sequence[float], fixed: Sequence[float], *, better: str) -> float:
    """The exact one-sided p of Wilcoxon's rank sum: how often chance alone would put the faulty runs so far behind.

    Runs that broke down or ended in NaN belong to the worst. Five against five can reach 1/252 at best.

    >>> round(worse_by_ranks([5, 6, 7, 8, 9], [0, 1, 2, 3, 4], better="lower"), 4)
    0.004
    >>> worse_by_ranks([1, 1, 1], [1, 1, 1], better="lower")
    1.0
    """
    values = [_badness(value, better) for value in (*faulty, *fixed)]
    ranks = _midranks(values)
    seen = sum(ranks[: len(faulty)])
    sums = [sum(chosen) for chosen in combinations(ranks, len(faulty))]
    return sum(each >= seen - 1e-9 for each in sums) / len(sums)


def _badness(value: float, better: str) -> float:
    if not math.isfinite(value):
        return math.inf
    return value if better == "lower" else -value


def _midranks(values: Sequence[float]) -> list[float]:
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


def tenth(ids: Iterable[str]) -> tuple[str, ...]:
    """Every tenth of each section, at least one of each: the same ones in every run.

    >>> tenth(["D01", "D02", "O01", *(f"H{n:02}" for n in range(1, 13))])
    ('D01', 'O01', 'H01', 'H11')
    """
    sections: dict[str, list[str]] = {}
    for each in ids:
        sections.setdefault(each[0], []).append(each)
    return tuple(each for members in sections.values() for each in sorted(members)[::10])
