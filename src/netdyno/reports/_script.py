"""What a report says of an unmodified script: how its updates were counted, where its lines spend time, and its patch."""

from collections.abc import Iterable
from typing import NamedTuple

from netdyno.records.evidence import LineCosts, OptimizerUse, ScriptTrace, StepTimeline, Stretch
from netdyno.records.record import Patch, Record
from netdyno.reports._info import Fact, place
from netdyno.reports._units import duration, fixed, number, one_line, share

# Lines below a fiftieth of the samples, and beyond the first eight, tell nobody where to look.
WORTH_A_LINE = 0.02
MOST_LINES = 8
MOST_EVENTS = 4
MOST_FILES = 6
MOST_STRETCHES = 3


class LineRow(NamedTuple):
    """A line of the user's code: where, what was going on, and its share of all looks."""

    where: str
    phase: str
    says: str
    part: float


class PatchInfo(NamedTuple):
    """The edit, what became of running it, and what no certain edit makes."""

    diff: str
    says: str
    verified: bool | None
    unpatched: tuple[Fact, ...]


class ScriptInfo(NamedTuple):
    """All of it. `lines_say` tells how the lines were come by."""

    counted: tuple[Fact, ...]
    lines: tuple[LineRow, ...]
    lines_say: str
    patch: PatchInfo | None


def script(record: Record) -> ScriptInfo | None:
    """What is said of a script; None for a declared workload."""
    trace = next((item for item in record.evidence if isinstance(item, ScriptTrace)), None)
    if trace is None:
        return None
    lines = next((item for item in record.evidence if isinstance(item, LineCosts)), None)
    return ScriptInfo(
        counted=tuple(_counted(record, trace)),
        lines=tuple(_lines(lines)) if lines else (),
        lines_say=f"{number(lines.samples)} looks at the training thread, {fixed(lines.hz, 0)} a second"
        if lines
        else "",
        patch=_patch(record.patch) if record.patch else None,
    )


def _counted(record: Record, trace: ScriptTrace) -> Iterable[Fact]:
    yield Fact("command", one_line(record.target.source))
    per = f", {trace.cycle} to a period" if trace.cycle and trace.cycle > 1 else ""
    yield Fact(
        "updates", f"{number(trace.updates)} in {duration(trace.span_s)}, counted by the {trace.counted_by}{per}"
    )
    if trace.optimizers:
        yield Fact("optimizers", "; ".join(one_line(_optimizer(each)) for each in trace.optimizers))
    if trace.events:
        often = sorted(trace.events, key=lambda event: -event[1])[:MOST_EVENTS]
        yield Fact("an update is", "; ".join(f"{one_line(text)} ({number(times)}×)" for text, times in often))
    yield Fact("not accounted for", f"{fixed(100 * trace.unattributed, 1)} % of the time watched")
    yield from _gaps(record, trace)
    watched = (
        f", {number(trace.burst[0])} of every {number(trace.burst[1])} updates: they are short" if trace.burst else ""
    )
    yield Fact(
        "the watch itself", f"{share(trace.own_s / trace.span_s) if trace.span_s else '0 %'} of that time{watched}"
    )
    if trace.unfired:
        yield Fact("replaced by sampling", ", ".join(trace.unfired))
    if trace.stopped:
        yield Fact("ended by", one_line(trace.stopped))
    if record.wrote:
        more = len(record.wrote) - MOST_FILES
        shown = ", ".join(map(one_line, record.wrote[:MOST_FILES]))
        yield Fact("it wrote", f"{shown}{f' and {more} more' if more > 0 else ''}")


def _gaps(record: Record, trace: ScriptTrace) -> Iterable[Fact]:
    """The lines of the gaps that take a fiftieth of a step or more."""
    timeline = next((item for item in record.evidence if isinstance(item, StepTimeline)), None)
    shares = {gap: timeline.share(gap) for gap in trace.gaps} if timeline is not None else {}
    told = [
        f"{gap} {share(shares[gap])}: {', '.join(map(_stretch, trace.gaps[gap][:MOST_STRETCHES]))}"
        for gap in sorted(shares, key=lambda gap: -shares[gap])
        if shares[gap] >= WORTH_A_LINE
    ]
    if told:
        yield Fact("between calls", "; ".join(told))


def _stretch(lines: Stretch) -> str:
    where = f"{lines.file}:{lines.first}" + (f"–{lines.last}" if lines.last != lines.first else "")
    return one_line(f"{where} ({lines.framework})" if lines.framework else where)


def _optimizer(used: OptimizerUse) -> str:
    inside = ", ".join(f"{key}={value}" for key, value in used.settings.items() if value not in ("", "None", "False"))
    return f"{used.optimizer}({inside})" if inside else used.optimizer


def _lines(costs: LineCosts) -> list[LineRow]:
    by_line: dict[str, LineRow] = {}
    for line in sorted(costs.lines, key=lambda line: -line.share):
        where = place(line.where)
        known = by_line.get(where)
        if known is None:
            inside = f" ({line.framework})" if line.framework else ""
            by_line[where] = LineRow(where, one_line(line.phase), one_line(f"{line.function}{inside}"), line.share)
        else:
            by_line[where] = known._replace(part=known.part + line.share)
    rows = sorted(by_line.values(), key=lambda row: -row.part)
    return [row for row in rows if row.part >= WORTH_A_LINE][:MOST_LINES]


def _patch(patch: Patch) -> PatchInfo:
    return PatchInfo(
        diff=patch.diff,
        says=one_line(patch.says) or "not run yet",
        verified=patch.verified,
        unpatched=tuple(
            Fact(one_line(each.change.label), one_line(f"{each.why} {place(each.where)}".strip()))
            for each in patch.unpatched
        ),
    )
