"""A run for the terminal: the answer first, then why, then how it was measured.

Everything reads without colour and at sixty columns; colour and width are arguments, never looked up.
"""

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from netdyno.records.diagnosis import Experiment, Outcome
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.measured import Interval, Split
from netdyno.records.record import Record, SmokeCheck
from netdyno.reports import _info as info
from netdyno.reports import _pictures as pictures
from netdyno.reports import _script as scripts
from netdyno.reports._units import duration, fixed, one_line, plain, share, size
from netdyno.verdicts.compare import Row

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Part = Any  # what rich can print

# From here on a table row of a trial keeps its reason on one or two lines; below, blocks read better.
WIDE = 104

MARKS = {
    "keep": ("✓ kept", "bold green"),
    "drop": ("✗ dropped", "red"),
    "undecided": ("? undecided", "yellow"),
    "failed": ("! failed", "red"),
    "open": ("… no verdict", "dim"),
}
SMOKE_MARKS = {"ok": ("✓", "green"), "wrong": ("✗", "bold red"), "not checked": ("–", "dim")}
GLYPHS = {"baseline": ("█", "blue"), "change": ("▓", "green"), "residual": ("░", "dim"), "final": ("█", "cyan")}


def render(record: Record, *, width: int = 100, colour: bool = False) -> str:
    """The whole run, for someone who waits at a terminal."""
    parts = (
        *_headline(record),
        *_baseline(record, width),
        *_script(scripts.script(record)),
        *_timeline(record, width),
        *_findings(info.diagnosis(record.outcomes, record.experiments)),
        *_trials(record, width),
        *_not_tried(record),
        *_measured(record),
        *_recipe(record),
        *_patch(scripts.script(record)),
        # A terminal is read from its end: the waterfall and the answer stand there.
        *_waterfall(record, width),
        *_answer(record),
    )
    return _printed(parts, width=width, colour=colour)


def render_baseline(record: Record, *, width: int = 100, colour: bool = False) -> str:
    """The four baselines, the account of a step and of its memory, and the machine they were taken on."""
    parts = (
        _said(f"{one_line(record.target.name)}: {info.headline(record).says}", "bold"),
        *_smoke(info.smoke(record.smoke)),
        *_baseline(record, width),
        *_timeline(record, width),
        *_memory(record),
        *_facts("Machine", info.environment(record.environment, record.ceilings)),
    )
    return _printed(parts, width=width, colour=colour)


def render_watched(record: Record, *, width: int = 100, colour: bool = False) -> str:
    """How a script was counted, where its lines and its steps spend their time."""
    return _printed((*_script(scripts.script(record)), *_timeline(record, width)), width=width, colour=colour)


def render_findings(
    outcomes: Iterable[Outcome],
    *,
    experiments: Iterable[Experiment] = (),
    everything: bool = False,
    width: int = 100,
    colour: bool = False,
) -> str:
    """What the doctor found: the root cause in full, the others in a line each (in full with `everything`), and what
    became of the other rules."""
    told = info.diagnosis(outcomes, experiments)
    return _printed(_findings(told, everything=everything), width=width, colour=colour)


def render_machine(
    environment: Environment, ceilings: Ceilings | None = None, *, width: int = 100, colour: bool = False
) -> str:
    """The machine, its software, and what it can do at best."""
    facts = info.environment(environment, ceilings)
    return _printed(_facts("Machine", facts), width=width, colour=colour)


class RunSummary(Protocol):
    """What a list of runs needs to know of each."""

    @property
    def id(self) -> str: ...
    @property
    def made_at(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def says(self) -> str: ...


def summary(record: Record) -> str:
    """The sentence that a list of runs shows for this one."""
    return info.headline(record).says + ("" if record.finished else " (unfinished)")


def render_runs(summaries: Iterable[RunSummary], *, width: int = 100, colour: bool = False) -> str:
    """The runs that are stored, in the order in which they are given."""
    rows = tuple(summaries)
    if not rows:
        return _printed((_said("no runs are stored here yet"),), width=width, colour=colour)
    if width < WIDE:
        blocks = [part for row in rows for part in (_run_line(row), _said(f"  {one_line(row.says)}"))]
        return _printed(blocks, width=width, colour=colour)
    table = _table(("run", {}), ("made", {"no_wrap": True}), ("target", {}), ("result", {"ratio": 1}))
    for row in rows:
        table.add_row(*map(_said, (row.id, row.made_at[:16].replace("T", " "), row.target, row.says)))
    return _printed((table,), width=width, colour=colour)


def _run_line(row: RunSummary) -> "Text":
    return _joined(
        (row.id, "bold"), (f"  {one_line(row.target)}", ""), (f"  {row.made_at[:16].replace('T', ' ')}", "dim")
    )


def render_comparison(runs: tuple[str, str], rows: Iterable[Row], *, width: int = 100, colour: bool = False) -> str:
    """The baselines of two runs, quantity by quantity. Says that no verdict is in it."""
    right = {"justify": "right", "no_wrap": True}
    table = _table(("", {}), ("before", right), ("after", right), ("change", right), ("", {"ratio": 1}))
    for row in rows:
        told = info.compared(row)
        table.add_row(*map(_said, (told.quantity, told.before, told.after, told.change, told.note)))
    parts: list[Part] = [
        _said(f"before  {one_line(runs[0])}", "dim"),
        _said(f"after   {one_line(runs[1])}", "dim"),
        table,
        _said("not taken in turns: drift of the machine is in these changes, so they are no verdict", "dim"),
    ]
    return _printed(parts, width=width, colour=colour)


def render_smoke(checks: Iterable[SmokeCheck], *, width: int = 100, colour: bool = False) -> str:
    """The smoke baseline, faults first."""
    return _printed(_smoke(info.smoke(checks)), width=width, colour=colour)


# ---------------------------------------------------------------- sections


def _headline(record: Record) -> Iterable[Part]:
    told = info.headline(record)
    styles = {"faster": "bold green", "slower": "bold yellow", "none": "bold", "noise": "bold"}
    yield _said(f"{one_line(record.target.name)}  {one_line(record.target.source)}", "dim")
    yield _said(told.says, styles.get(told.state, "bold"))
    counts = info.step_counts(record)
    if counts:
        yield _said(f"{counts.says} {counts.name}")
    for note in told.notes:
        yield _said(f"· {note}", "yellow")


def _answer(record: Record) -> Iterable[Part]:
    """The first line once more, unless all of the report fits under it."""
    told = info.headline(record)
    if told.state != "open":
        yield _said("")
        yield _said(told.says, "bold")


def _waterfall(record: Record, width: int) -> Iterable[Part]:
    told = info.waterfall(record)
    if told is None:
        return
    yield from _heading(f"Where the gain comes from  ({told.unit.sign} per step, {share(told.total.level)} intervals)")
    cells = 10 if width < 72 else 20 if width < 100 else 30
    roomy = width >= 72
    right = {"justify": "right", "no_wrap": True}
    table = _table(
        ("", {}), ("", {"no_wrap": True, "width": cells}), ("", right), *((("of total", right),) if roomy else ())
    )
    for row in told.rows:
        glyph, style = GLYPHS[row.kind]
        weight = "bold" if row.kind in ("baseline", "final") else ""
        part = (_said(share(row.part) if row.part is not None else ""),) if roomy else ()
        table.add_row(
            _said(row.label, weight),
            _said(bar(row.start, row.end, told.widest, cells, glyph), style),
            _said(row_says(row, told), weight),
            *part,
        )
    yield table
    for row in told.rows:
        if row.note:
            yield _said(f"· {row.label}: {row.note}", "dim")
    yield _said(f"· {told.closes}")
    yield from (_said(f"· {line}") for line in told.interactions)
    if told.how:
        yield _said(f"· {told.how}", "dim")
    if width >= WIDE:
        yield from _orders(told)


def _orders(told: info.WaterfallInfo) -> Iterable[Part]:
    changes = [row for row in told.rows if row.kind == "change"]
    if not changes:
        return
    right = {"justify": "right", "no_wrap": True}
    table = _table(
        ("saved when", {}), ("switched on in order", right), ("in reverse order", right), ("lost if left out", right)
    )
    for row in changes:
        orders = (row.forward, row.backward, row.left_out)
        table.add_row(_said(row.label), *(_said(bare(each, told) if each else "") for each in orders))
    yield _said("")
    yield table


def row_says(row: info.WaterfallRow, told: info.WaterfallInfo) -> str:
    """A row's number with what it does: `saves 3.52 (3.34 to 3.71)`; no verb where the sign is not certain."""
    verb, interval = row.effect
    return f"{verb} {bare(interval, told)}".strip()


def bare(interval: Interval, told: info.WaterfallInfo) -> str:
    """An interval in the waterfall's unit, which its heading names."""
    middle, between = told.parts(interval)
    ending = f" {told.unit.sign}"
    return f"{middle.removesuffix(ending)} ({between.removesuffix(ending)})"


def bar(start: float, end: float, widest: float, cells: int, glyph: str) -> str:
    """A bar between two values on a scale from nothing to `widest`; what is not zero shows at least one cell.

    >>> bar(0, 8, 8, 8, "█"), bar(8, 6, 8, 8, "▓"), bar(6, 5.99, 8, 8, "░")
    ('████████', '      ▓▓', '      ░')
    """
    if widest <= 0 or start == end:
        return ""
    first, last = sorted((start, end))
    left = min(round(cells * first / widest), cells - 1)
    right = max(round(cells * last / widest), left + 1)
    return " " * left + glyph * (right - left)


def _recipe(record: Record) -> Iterable[Part]:
    rows = info.recipe(record)
    if not rows:
        return
    yield from _heading("The recipe")
    for row in rows:
        yield _joined((row.label, "bold"), (f"  {row.numerics}" if row.numerics else "", "dim"))
        if row.code:
            yield _indented(_said(plain(row.code), "cyan"))


# More rules than this that found nothing are counted, not named.
NAMED = 30


def _findings(told: info.DiagnosisInfo, *, everything: bool = False) -> Iterable[Part]:
    if told == info.DiagnosisInfo((), (), (), ()):
        return
    yield from _heading("What holds it back")
    findings = [finding for finding in told.findings if finding.stage != "note"]
    unfolded = len(findings) if everything else 1
    if not findings:
        yield _said("no rule found anything")
    for finding in findings[:unfolded]:
        yield from _finding(finding)
    if findings[unfolded:]:
        yield _said("also")
        yield from (_indented(_said(finding.line)) for finding in findings[unfolded:])
    yield from (_said(f"note: {finding.line}", "dim") for finding in told.findings if finding.stage == "note")
    if told.clear:
        names = ", ".join(told.clear) if everything or len(told.clear) <= NAMED else f"{len(told.clear)} rules"
        yield _said(f"looked and found nothing: {names}", "dim")
    if everything or len(told.skipped) <= 3:
        for reason, rules in _by_reason(told.skipped).items():
            yield _said(f"not looked: {', '.join(rules)} ({reason})", "dim")
    else:
        yield _said(f"not looked, for want of evidence: {len(told.skipped)} rules (`--everything` says which)", "dim")
    yield from (_said(f"rule failed: {rule} ({reason})", "yellow") for rule, reason in told.failed)


def _by_reason(skipped: Iterable[info.Fact]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rule, reason in skipped:
        found.setdefault(reason, []).append(rule)
    return found


def _finding(finding: info.FindingInfo) -> Iterable[Part]:
    sure = "" if finding.state == "found" else f", suspected (confidence {share(finding.confidence)})"
    about = ", ".join(part for part in (finding.layer, finding.saves) if part)
    yield _joined((finding.id, "bold"), (f"  {about}{sure}", ""))
    yield _indented(_said(finding.says))
    lines = (
        ("evidence", ", ".join(f"{name} {value}" for name, value in finding.evidence)),
        ("place", finding.place),
        ("fix", finding.fix),
        ("proof", finding.proof),
        ("try", ", ".join(finding.suggests)),
        ("explains", ", ".join(finding.explains)),
    )
    yield _indented(_pairs((name, says) for name, says in lines if says))


def _trials(record: Record, width: int) -> Iterable[Part]:
    tried = info.trials(record)
    if not tried:
        return
    yield from _heading("What was tried")
    yield from (_trials_table(tried) if width >= WIDE else _trials_blocks(tried))


def _trials_table(tried: Sequence[info.TrialInfo]) -> Iterable[Part]:
    right = {"justify": "right"}
    table = _table(
        ("change", {"max_width": 30}),
        ("predicted", {**right, "no_wrap": True}),
        ("saved of a step", {**right, "no_wrap": True}),
        ("pairs", right),
        ("", {"no_wrap": True}),
        ("why", {"ratio": 1}),
    )
    for one in tried:
        table.add_row(
            _said(one.label),
            _said(one.predicted_says),
            _said(one.gain_says),
            _said(str(one.pairs)),
            _said(*MARKS[one.decision]),
            _said(_why(one)),
        )
    yield table


def _trials_blocks(tried: Sequence[info.TrialInfo]) -> Iterable[Part]:
    for one in tried:
        yield _joined(MARKS[one.decision], (f"  {one.label}", "bold"))
        saved = f"saved {one.gain_says} of a step in {one.pairs} pairs" if one.gain else one.gain_says
        yield _indented(_said(f"{saved}; predicted {one.predicted_says}"))
        yield _indented(_said(_why(one), "dim"))


def _why(one: info.TrialInfo) -> str:
    reasons = one.reasons or ((one.failed,) if one.failed else ())
    broken = tuple(f"{check.name}: {check.says}" for check in one.checks if check.holds is False)
    said = " ".join(reasons)
    return "; ".join((*reasons, *(each for each in broken if each not in said), one.numerics))


def _not_tried(record: Record) -> Iterable[Part]:
    left = info.not_tried(record)
    if not left:
        return
    yield from _heading("What was not tried")
    yield _pairs((one.label, f"{one.why}{f' (predicted {one.predicted})' if one.predicted else ''}") for one in left)


def _baseline(record: Record, width: int) -> Iterable[Part]:
    told = info.baselines(record.baseline, record.target.item)
    if told is None:
        return
    right = {"justify": "right", "no_wrap": True}
    yield from _heading("Baseline")
    table = _table(("", {"no_wrap": True}), ("", {"no_wrap": True}), ("median", right), ("middle half", right), ("95 % below", right), *((("samples", right),) if width >= 72 else ()))  # fmt: skip
    for row in told.rows:
        cells = (row.middle, row.between, row.most, *((str(row.samples),) if width >= 72 else ()))
        table.add_row(_said(row.part, "bold"), *map(_said, (row.name, *cells)))
    yield table
    yield _pairs(told.facts)


def _timeline(record: Record, width: int) -> Iterable[Part]:
    told = pictures.timeline(record)
    if told is None:
        return
    yield from _heading("Where a step goes")
    cells = 16 if width < 80 else 32
    right = {"justify": "right", "no_wrap": True}
    roomy = width >= 72
    after = (("after", right),) if told.after else ()
    table = _table(
        ("", {}), ("", {"no_wrap": True, "width": cells}), ("before", right), ("of step", right),
        *((("waiting", right),) if roomy else ()), *after,
    )  # fmt: skip
    for row in told.rows:
        part = share(row.before.own / told.before.own) if told.before.own else ""
        waiting = (duration(row.before.waiting),) if roomy else ()
        later = (duration(row.after.own),) if row.after else ()
        cells_ = map(_said, (duration(row.before.own), part, *waiting, *later))
        table.add_row(_said(row.name), _split_bar(row.before, told.widest, cells), *cells_)
    yield table
    yield _said("· █ on a core, ▒ blocked, ░ waiting for a core; times and shares leave the waiting out", "dim")
    yield _said(f"· {fixed(100 * told.explained, 1)} % of a step's wall time is in named phases", "dim")


def _script(told: scripts.ScriptInfo | None) -> Iterable[Part]:
    if told is None:
        return
    yield from _facts("How it was counted", told.counted)
    if told.lines:
        yield from _heading("Where its lines spend the time")
        table = _table(("of the time", {"justify": "right", "no_wrap": True}), ("line", {}), ("while", {}))
        for row in told.lines:
            table.add_row(_said(share(row.part)), _said(f"{row.where} {row.says}".strip()), _said(row.phase))
        yield table
        yield _said(f"· {told.lines_say}", "dim")


def _patch(told: scripts.ScriptInfo | None) -> Iterable[Part]:
    if told is None or told.patch is None:
        return
    marks = {True: ("verified", "green"), False: ("not verified", "red"), None: ("not run", "yellow")}
    mark, style = marks[told.patch.verified]
    yield from _heading(f"The patch  ({mark})")
    yield from (_verbatim(line, _DIFF.get(line[:1], "")) for line in told.patch.diff.splitlines())
    yield _said(f"· {told.patch.says}", style)
    yield from (_said(f"· not written: {name}: {says}", "yellow") for name, says in told.patch.unpatched)


_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def _split_bar(split: Split, widest: float, cells: int) -> "Text":
    if widest <= 0 or split.wall <= 0:
        return _said("")
    ends = [round(cells * part / widest) for part in (split.running, split.running + split.blocked, split.wall)]
    running, blocked, waiting = ends[0], ends[1] - ends[0], ends[2] - ends[1]
    if not ends[2]:
        return _said("▏", "blue")
    return _joined(("█" * running, "blue"), ("▒" * blocked, "magenta"), ("░" * waiting, "yellow"))


def _memory(record: Record) -> Iterable[Part]:
    told = pictures.memory(record)
    if told is None:
        return
    yield from _heading("Where the memory goes")
    table = _table(("", {}), ("", {"justify": "right"}), ("of these", {"justify": "right"}))
    for row in told.rows:
        table.add_row(_said(row.name), _said(size(row.bytes)), _said(share(row.part)))
    yield table
    yield _said(
        f"· a step holds {size(told.peak)} at its peak; {size(told.available)} of {size(told.capacity)} were free"
    )


def _measured(record: Record) -> Iterable[Part]:
    return _facts("How it was measured", info.measured(record))


def _smoke(checks: Sequence[info.SmokeInfo]) -> Iterable[Part]:
    if not checks:
        return
    wrong = sum(check.state == "wrong" for check in checks)
    yield from _heading(f"Smoke baseline  ({'all clear' if not wrong else f'{wrong} wrong'})")
    for check in checks:
        mark, style = SMOKE_MARKS[check.state]
        state = "" if check.state == "ok" else f" ({check.state})"
        yield _joined((f"{mark} ", style), (check.name, "bold"), (f"{state}: {check.says}", ""))
        if check.hint:
            yield _indented(_said(f"hint: {check.hint}"))


def _facts(title: str, facts: Sequence[info.Fact]) -> Iterable[Part]:
    if facts:
        yield from _heading(title)
        yield _pairs(facts)


# ---------------------------------------------------------------- printing


def _printed(parts: Iterable[Part], *, width: int, colour: bool) -> str:
    """Everything on a page of this width. The environment is not asked: the caller decides."""
    from rich.console import Console

    page = io.StringIO()
    console = Console(
        file=page,
        width=max(width, 40),
        color_system="standard" if colour else None,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for part in parts:
        # What is to be copied keeps its lines, however narrow the page is.
        console.print(part, soft_wrap=getattr(part, "no_wrap", None) is True)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).strip("\n") + "\n"


def _said(text: str, style: str = "") -> "Text":
    from rich.text import Text

    return Text(plain(text), style=style)


def _verbatim(text: str, style: str = "") -> "Text":
    """A line that is not broken, for whoever copies it."""
    line = _said(text, style)
    line.no_wrap = True
    return line


def _joined(*pieces: tuple[str, str]) -> "Text":
    from rich.text import Text

    return Text.assemble(*((plain(text), style) for text, style in pieces))


def _heading(title: str) -> Iterable["Text"]:
    yield _said("")
    yield _joined(("── ", "dim"), (title, "bold"))


def _indented(part: Part) -> Part:
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 4), expand=False)


def _table(*columns: tuple[str, dict[str, Any]]) -> "Table":
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(t for t, _ in columns)
    )
    for title, options in columns:
        table.add_column(title, **({"overflow": "fold"} | options))
    return table


def _pairs(facts: Iterable[tuple[str, str]]) -> "Table":
    """Names on the left, what is known on the right."""
    table = _table(("", {"max_width": 26}), ("", {"ratio": 1}))
    for name, says in facts:
        table.add_row(_said(name, "dim"), _said(says))
    return table
