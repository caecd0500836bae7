"""A short summary for a pull request: the answer, the waterfall as a table, the edits, how it was measured."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from netdyno.records.record import Record
from netdyno.reports import _info as info
from netdyno.reports._units import plain

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_TICKS = re.compile(r"`+")


class SummaryInfo(NamedTuple):
    """What the summary holds: sentences, tables and code, nothing formatted yet."""

    title: str
    says: str
    notes: tuple[str, ...]
    waterfall: tuple[tuple[str, ...], ...]
    closes: str
    dropped: tuple[tuple[str, ...], ...]
    code: str
    diff: str
    measured: tuple[info.Fact, ...]


def summary(record: Record) -> SummaryInfo:
    """The part of a run that a reviewer needs."""
    told = info.headline(record)
    falls = info.waterfall(record)
    return SummaryInfo(
        title=record.target.name,
        says=told.says,
        notes=told.notes,
        waterfall=tuple(_fall(row, falls) for row in falls.rows) if falls else (),
        closes=falls.closes if falls else "",
        dropped=tuple(
            (one.label, one.gain_says, one.decision, "; ".join(one.reasons) or one.failed or "")
            for one in info.trials(record)
            if one.decision != "keep"
        ),
        code="\n".join(row.code for row in info.recipe(record) if row.code),
        diff=record.patch.diff if record.patch else "",
        measured=info.measured(record),
    )


def _fall(row: info.WaterfallRow, falls: info.WaterfallInfo) -> tuple[str, ...]:
    verb, interval = row.effect
    return (row.label, f"{verb} {falls.says(interval)}".strip(), row.note or row.numerics)


def render(record: Record) -> str:
    """The summary as Markdown."""
    return "\n\n".join(part for part in _parts(summary(record)) if part) + "\n"


def _parts(told: SummaryInfo) -> Iterable[str]:
    yield f"### {escaped(told.title)}: {escaped(told.says)}"
    yield "\n".join(f"- {escaped(note)}" for note in told.notes)
    if told.waterfall:
        yield _table(("", "time per step", ""), told.waterfall, right=1)
        yield escaped(told.closes)
    if told.code:
        yield _code(told.code)
    if told.diff:
        yield _code(told.diff, language="diff")
    if told.dropped:
        yield _folded(
            "Tried and not kept", _table(("change", "saved of a step", "decision", "why"), told.dropped, right=1)
        )
    if told.measured:
        yield _folded("How it was measured", _table(("", ""), told.measured))


def escaped(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> escaped("channels_last | <b>")
    'channels\\\\_last \\\\| \\\\<b\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: int | None = None) -> str:
    rule = ["---:" if column == right else "---" for column in range(len(head))]
    lines = [head, rule, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _code(code: str, *, language: str = "python") -> str:
    # A fence must be longer than any run of ticks inside it.
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(code)), default=0))
    return f"{fence}{language}\n{plain(code)}\n{fence}"


def _folded(title: str, inside: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>"
