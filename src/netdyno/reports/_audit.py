"""A look at data made readable: first what is shown, as plain tuples, then the terminal and the JSON."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from netdyno.records.audit import Audit, Column, DataProfile, SplitProfile
from netdyno.records.diagnosis import Exhibit, Outcome
from netdyno.reports import _info as info
from netdyno.reports import text
from netdyno.reports._units import number, one_line, share

BLOCKS = " ▁▂▃▄▅▆▇█"
SHOWN = 3  # samples of a finding in the terminal: the page shows all
MOST_COLUMNS = 12  # of a table in the terminal
NARROW = 72


class FoundInfo(NamedTuple):
    """One finding and the samples it rests on."""

    finding: info.FindingInfo
    exhibits: tuple[Exhibit, ...]


class ColumnInfo(NamedTuple):
    """One column of one split in words, and its histogram as shares of the highest bin."""

    name: str
    split: str
    middle: str
    spread: str
    span: str
    skew: str
    missing: str
    bars: tuple[float, ...]
    common: str


class AuditInfo(NamedTuple):
    """All that a report of a look at data shows."""

    headline: str
    state: str
    data: str
    splits: tuple[info.Fact, ...]
    found: tuple[FoundInfo, ...]
    notes: tuple[info.FindingInfo, ...]
    clear: tuple[str, ...]
    skipped: tuple[info.Fact, ...]
    failed: tuple[info.Fact, ...]
    columns: tuple[ColumnInfo, ...]
    statistics: tuple[info.Fact, ...]


def audit_info(audit: Audit) -> AuditInfo:
    """What is to be shown of a look at data."""
    told = info.diagnosis(audit.outcomes)
    exhibits = {each.rule: each.finding.exhibits for each in audit.outcomes if each.finding is not None}
    wrong = tuple(each for each in told.findings if each.stage != "note")
    return AuditInfo(
        headline=_headline(audit, wrong, told),
        state="well" if not wrong else "sick",
        data=_data(audit.profile),
        splits=tuple(_split(each) for each in audit.profile.splits) if audit.profile else (),
        found=tuple(FoundInfo(each, exhibits.get(each.id, ())) for each in wrong),
        notes=tuple(each for each in told.findings if each.stage == "note"),
        clear=told.clear,
        skipped=told.skipped,
        failed=told.failed,
        columns=tuple(_column(each, split.name) for split, each in _columns(audit.profile)),
        statistics=_statistics(audit.profile),
    )


def _headline(audit: Audit, wrong: tuple[info.FindingInfo, ...], told: info.DiagnosisInfo) -> str:
    sure = sum(each.state == "found" for each in wrong)
    guessed = len(wrong) - sure
    parts = [f"{sure} thing{'s are' if sure > 1 else ' is'} wrong with the data"] if sure else []
    parts += [f"{guessed} {'more ' if sure else ''}suspected"] if guessed else []
    looked = len(told.clear) + len(told.findings)
    silence = "" if audit.finished else ", and the look is not finished"
    return (", ".join(parts) or f"nothing found: {looked} audits looked") + silence


def _data(profile: DataProfile | None) -> str:
    if profile is None:
        return ""
    shape = " × ".join(map(str, profile.shape))
    classes = max((len(split.classes) for split in profile.splits), default=0)
    task = {"classes": f"{classes} classes", "numbers": "numbers to learn", "none": "nothing named to learn"}[
        profile.task
    ]
    return ", ".join(part for part in (f"{profile.modality}{f' of {shape}' if shape else ''}", task) if part)


def _split(split: SplitProfile) -> info.Fact:
    looked = "" if split.looked_at == split.samples else f", {split.looked_at:,} looked at"
    counts = split.classes.values()
    classes = f"; {min(counts):,} to {max(counts):,} of a class" if counts else ""
    return info.Fact(split.name, f"{split.samples:,} samples{looked}{classes}")


def _columns(profile: DataProfile | None) -> Iterable[tuple[SplitProfile, Column]]:
    """Column by column, so that the same one of two splits stands together."""
    if profile is None:
        return
    for at in range(max((len(split.columns) for split in profile.splits), default=0)):
        for split in profile.splits:
            if at < len(split.columns):
                yield split, split.columns[at]


def _column(column: Column, split: str) -> ColumnInfo:
    top = max(column.histogram, default=0) or 1
    return ColumnInfo(
        name=one_line(column.name),
        split=split,
        middle=_or_none(column.mean),
        spread=_or_none(column.deviation),
        span="" if column.low is None or column.high is None else f"{number(column.low)} to {number(column.high)}",
        skew=_or_none(column.skew, 2),
        missing=f"{column.missing:,}" if column.missing else "",
        bars=tuple(count / top for count in column.histogram),
        common=", ".join(f"{one_line(name)} {many:,}" for name, many in column.common.items()),
    )


def _or_none(value: float | None, digits: int = 3) -> str:
    return "" if value is None else number(value, digits)


def _statistics(profile: DataProfile | None) -> tuple[info.Fact, ...]:
    if profile is None or not profile.mean:
        return ()
    return (
        info.Fact("mean", ", ".join(map(number, profile.mean))),
        info.Fact("deviation", ", ".join(map(number, profile.deviation))),
    )


def render(audit: Audit, *, everything: bool = False, width: int = 100, colour: bool = False) -> str:
    """The look for someone at a terminal: the answer, then the findings with their samples, then the data."""
    return text._printed(
        _parts(audit, audit_info(audit), everything=everything, width=width), width=width, colour=colour
    )


def _parts(audit: Audit, told: AuditInfo, *, everything: bool, width: int) -> Iterable[text.Part]:
    yield text._joined((one_line(audit.target), "bold"), (f"  {told.data}" if told.data else "", ""))
    yield text._indented(text._pairs(told.splits))
    yield text._said("")
    yield text._said(told.headline, "bold green" if told.state == "well" else "bold")
    for each in told.found:
        yield text._said("")
        yield from text._finding(each.finding)
        yield from _samples(each.exhibits, everything=everything)
    yield from (text._said(f"note: {each.line}", "dim") for each in told.notes)
    yield from _silence(told, everything=everything)
    yield from _described(told, everything=everything, width=width)


def _samples(exhibits: tuple[Exhibit, ...], *, everything: bool) -> Iterable[text.Part]:
    shown = exhibits if everything else exhibits[:SHOWN]
    rows = [
        (f"{each.split} {each.index}", "  ".join(filter(None, (one_line(each.says), one_line(each.shows)))))
        for each in shown
    ]
    if rows:
        yield text._indented(text._said("samples", "dim"))
        yield text._indented(text._indented(text._pairs(rows)))


def _silence(told: AuditInfo, *, everything: bool) -> Iterable[text.Part]:
    yield text._said("")
    if told.clear:
        yield text._said(f"looked and found nothing: {', '.join(told.clear)}", "dim")
    if everything:
        for reason, audits in text._by_reason(told.skipped).items():
            yield text._said(f"not looked: {', '.join(audits)} ({reason})", "dim")
    elif told.skipped:
        yield text._said(
            f"not looked, for they do not apply: {len(told.skipped)} audits (`--everything` says why)", "dim"
        )
    yield from (text._said(f"audit failed: {name} ({reason})", "yellow") for name, reason in told.failed)


def _described(told: AuditInfo, *, everything: bool, width: int) -> Iterable[text.Part]:
    if told.columns:
        yield from text._heading("How it is spread")
        shown = told.columns if everything else told.columns[: MOST_COLUMNS * max(1, len(told.splits))]
        yield _narrow(shown) if width < NARROW else _wide(shown)
        left = len(told.columns) - len(shown)
        if left:
            yield text._said(f"and {left} rows more (`--everything`, or the page of `--html`)", "dim")
    if told.statistics and len(told.statistics[0].says) < 4 * NARROW:
        yield from text._facts("To normalise with, from the training split alone", told.statistics)


def _wide(columns: Iterable[ColumnInfo]) -> text.Part:
    right = {"justify": "right", "no_wrap": True}
    table = text._table(
        ("", {"max_width": 26}), ("", {}), ("mean", right), ("deviation", right), ("range", {}), ("missing", right), ("", {"no_wrap": True}),
    )  # fmt: skip
    for each in columns:
        cells = (
            each.name,
            each.split,
            each.middle,
            each.spread,
            each.span or each.common,
            each.missing,
            spark(each.bars),
        )
        table.add_row(*map(text._said, cells))
    return table


def _narrow(columns: Iterable[ColumnInfo]) -> text.Part:
    return text._pairs(
        (f"{each.name}, {each.split}", f"{each.span or each.common} {spark(each.bars)}") for each in columns
    )


def spark(bars: Iterable[float]) -> str:
    """A histogram in one line of text; what is not empty is seen.

    >>> spark((0.0, 0.01, 0.5, 1.0))
    ' ▁▄█'
    """
    return "".join(BLOCKS[0 if not bar else max(1, round(bar * (len(BLOCKS) - 1)))] for bar in bars)


def as_json(audit: Audit, *, indent: int = 2) -> str:
    """The document itself for other programs, with `findings`, the root cause first, beside the outcomes of all audits."""
    told = msgspec.to_builtins(audit)
    told["findings"] = [
        _for_programs(each) for each in audit.outcomes if each.finding is not None and each.finding.stage != "note"
    ]
    told["notes"] = [
        _for_programs(each) for each in audit.outcomes if each.finding is not None and each.finding.stage == "note"
    ]
    told["outcomes"] = [{key: value for key, value in each.items() if key != "finding"} for each in told["outcomes"]]
    return msgspec.json.format(msgspec.json.encode(told), indent=indent).decode()


def _for_programs(outcome: Outcome) -> dict[str, object]:
    return {**msgspec.to_builtins(outcome.finding), "state": outcome.state}


def confidence(finding: info.FindingInfo) -> str:
    """What a page says beside a finding that is not sure."""
    return "" if finding.state == "found" else f"suspected, confidence {share(finding.confidence)}"
