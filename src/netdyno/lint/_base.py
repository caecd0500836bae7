"""What a lint is, and how all of them read a set of sources: each file is parsed once and walked once."""

import ast
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from netdyno import plugins
from netdyno.lint._python import Python, Splice, spliced
from netdyno.lint._text import Text, is_text, shell_of
from netdyno.records.diagnosis import Finding, Layer, Outcome, Saving, Stage
from netdyno.records.evidence import Place

# The same bar as for the rules: what is this sure is called found, below it is a suspicion.
SURE = 0.7
# What is outdated, or costs time only, is told and is no alarm.
REMARK = 0.6
# Longer files are generated, or data.
LONGEST = 2_000_000

IGNORE = re.compile(r"#\s*netdyno:\s*ignore(?:\[([^\]]*)\])?")


class Hit(NamedTuple):
    """One place of a wrong form: what it says, and what differs here from what the lint's own mark says."""

    at: ast.AST | int
    says: str
    fix: str | None = None
    confidence: float | None = None
    edits: tuple[Splice, ...] = ()


Look = Callable[..., Iterable[Hit]]


class Lint(NamedTuple):
    """A lint found in the room: its id is its file's name, what it reads is its one parameter."""

    id: str
    look: Look
    reads: type
    fix: str
    layer: Layer
    stage: Stage
    ledger: tuple[str, ...]
    confidence: float
    about: str
    watched: tuple[str, ...] = ()


class Found(NamedTuple):
    """One place in one file, as the command line shows it."""

    finding: Finding
    edits: tuple[Splice, ...]


class Reading(NamedTuple):
    """What came of a set of sources: all places, the lints that failed, the files that could not be read."""

    found: tuple[Found, ...]
    failed: Mapping[str, str]
    unread: Mapping[str, str]


def lint(
    *,
    fix: str,
    layer: Layer,
    stage: Stage,
    ledger: tuple[str, ...] = (),
    confidence: float = 0.9,
    watched: tuple[str, ...] = (),
) -> Callable[[Look], Look]:
    """Marks the function of a lint's file. It yields a Hit for each place of the wrong form.

    Its one parameter says what it reads: `Python`, one parsed source at a time, or `Text`, any other file and the
    commands that a Python file runs. `fix` is the right form in one line, `ledger` the rows of the catalogue of wrong
    forms that it covers; a confidence below 0.7 is a suspicion. `watched` are rules that see the same thing happen in
    a run: what they find is told instead, and what they clear is no finding.
    """

    def mark(look: Look) -> Look:
        look.lint = {  # type: ignore[attr-defined]
            "fix": fix,
            "layer": layer,
            "stage": stage,
            "ledger": ledger,
            "confidence": confidence,
            "watched": watched,
        }
        return look

    return mark


def lints() -> tuple[Lint | plugins.Broken, ...]:
    """All lints of the room and of other packages, in order of their ids."""
    return tuple(_from(name, module) for name, module in plugins.modules("lint"))


def _from(name: str, module: types.ModuleType | plugins.Broken) -> Lint | plugins.Broken:
    if isinstance(module, plugins.Broken):
        return module
    look = getattr(module, name.replace("-", "_"), None)
    if look is None or not hasattr(look, "lint"):
        return plugins.Broken(name, f"its file declares no function `{name.replace('-', '_')}` marked with @lint")
    (parameter,) = inspect.signature(look).parameters
    reads = typing.get_type_hints(look)[parameter]
    return Lint(id=name, look=look, reads=reads, about=(module.__doc__ or "").partition("\n")[0], **look.lint)


def watchers() -> dict[str, tuple[str, ...]]:
    """The rules that see in a run what a lint reads, by the lint."""
    return {each.id: each.watched for each in lints() if isinstance(each, Lint) and each.watched}


def check(sources: Mapping[str, str]) -> tuple[Outcome, ...]:
    """One outcome for each lint over these sources, by file name; the first place is told, the others are counted."""
    reading = places(sources)
    by_rule: dict[str, list[Finding]] = {}
    for each in reading.found:
        by_rule.setdefault(each.finding.id, []).append(each.finding)
    return tuple(_outcome(each.id, by_rule.get(each.id, []), reading) for each in lints())


def _outcome(name: str, found: list[Finding], reading: Reading) -> Outcome:
    if name in reading.failed:
        return Outcome(rule=name, state="failed", reason=reading.failed[name])
    if not found:
        unread = ", ".join(reading.unread)
        return Outcome(rule=name, state="clear", reason=f"{unread} could not be read" if unread else None)
    first = max(found, key=lambda finding: finding.confidence)  # of equals the first
    says = first.says if len(found) == 1 else f"{first.says} (and in {_more(first, found)})"
    finding = msgspec.structs.replace(first, says=says, because={**first.because, "places": float(len(found))})
    return Outcome(rule=name, state="found" if first.confidence >= SURE else "suspected", finding=finding)


def _more(first: Finding, found: list[Finding]) -> str:
    others = [each.where for each in found if each is not first and each.where is not None]
    here = first.where.file if first.where is not None else None
    told = [f"line {at.line}" if at.file == here else f"{at.file}:{at.line}" for at in others[:3]]
    return ", ".join(told) + (f" and {len(others) - 3} more places" if len(others) > 3 else "")


def places(sources: Mapping[str, str], *, select: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> Reading:
    """Every place of every wrong form, file by file and from top to bottom. What a comment excuses is left out."""
    chosen, left_out = set(select or ()), set(ignore)
    failed: dict[str, str] = {}
    unread: dict[str, str] = {}
    ready: list[Lint] = []
    for each in lints():
        if isinstance(each, plugins.Broken):
            failed[each.id] = f"it cannot be imported: {each.says}"
        elif (not chosen or each.id in chosen) and each.id not in left_out:
            ready.append(each)
    found: list[Found] = []
    for file, text in sources.items():
        try:
            readings = list(_readings(file, text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unread[file] = f"{type(error).__name__}: {error}"
            continue
        here = [hit for read in readings for hit in _hits(ready, read, failed)]
        excused = _excused(text)
        here = [each for each in here if not _is_excused(each.finding, excused)]
        found += sorted(here, key=lambda each: (_line(each.finding), each.finding.id))
    return Reading(tuple(found), failed, unread)


def _readings(file: str, text: str) -> Iterator[Python | Text]:
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters")
    if file.endswith((".py", ".pyi")):
        source = Python(file, text.removeprefix("\ufeff"))
        yield source
        yield shell_of(source)
        yield from _written_in(source)
    elif is_text(file):
        yield Text(file, text)


def _written_in(source: Python) -> Iterator[Python]:
    """Scripts that the file holds as texts, to be written out or run: a text of several lines that imports torch."""
    for each in source.of(ast.Constant):
        if not isinstance(each.value, str) or not re.search(r"^(import|from) .*\btorch\b", each.value, re.MULTILINE):
            continue
        try:
            yield Python(source.file, each.value, line=each.lineno - 1 + _skipped(each, each.value))
        except SyntaxError:  # a template, or prose
            continue


def _skipped(node: ast.Constant, text: str) -> int:
    """One where the text begins on the line behind its quotes."""
    return int((node.end_lineno or node.lineno) - node.lineno - text.count("\n") == 1)


def _hits(ready: list[Lint], read: Python | Text, failed: dict[str, str]) -> Iterator[Found]:
    for each in ready:
        if each.reads is not type(read):
            continue
        try:
            hits = list(each.look(read))
        except Exception as error:
            failed[each.id] = f"{type(error).__name__} in {read.file}: {error}"
            continue
        seen: set[int] = set()
        for hit in hits:
            line = hit.at if isinstance(hit.at, int) else int(getattr(hit.at, "lineno", 1)) + getattr(read, "line", 0)
            if line not in seen:  # one line is one place
                yield Found(_finding(each, hit, read.file, line), () if getattr(read, "line", 0) else hit.edits)
            seen.add(line)


def _finding(each: Lint, hit: Hit, file: str, line: int) -> Finding:
    return Finding(
        id=each.id,
        says=hit.says,
        layer=each.layer,
        saves=Saving(low=0.0, high=0.0),  # what a source could save is not known before it runs
        because={"line": float(line)},
        fix=hit.fix or each.fix,
        where=Place(file=file, line=line),
        confidence=each.confidence if hit.confidence is None else hit.confidence,
        stage=each.stage,
    )


def _line(finding: Finding) -> int:
    return (finding.where.line if finding.where is not None else None) or 0


def _excused(text: str) -> dict[int, frozenset[str] | None]:
    """The lines with a comment `# netdyno: ignore[id, …]`, and what it excuses: None for everything."""
    if "netdyno" not in text:
        return {}
    found: dict[int, frozenset[str] | None] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if (seen := IGNORE.search(line)) is not None:
            ids = seen.group(1)
            found[number] = (
                None if ids is None else frozenset(word.strip().replace("_", "-") for word in ids.split(","))
            )
    return found


def _is_excused(finding: Finding, excused: dict[int, frozenset[str] | None]) -> bool:
    line = _line(finding)
    if line not in excused:
        return False
    ids = excused[line]
    return ids is None or finding.id in ids


def fixed(sources: Mapping[str, str], found: Iterable[Found]) -> dict[str, str]:
    """The files that change when the safe fixes of these places are written into them."""
    by_file: dict[str, list[Splice]] = {}
    for each in found:
        if each.edits and each.finding.where is not None and each.finding.where.file is not None:
            by_file.setdefault(each.finding.where.file, []).extend(each.edits)
    return {file: _fixed(sources[file], splices) for file, splices in by_file.items()}


def _fixed(text: str, splices: list[Splice]) -> str:
    bare = text.removeprefix("\ufeff")
    after = spliced(bare, splices)
    try:
        ast.parse(after)
    except SyntaxError:  # two fixes that don't go together: a person should look
        return text
    return text[: len(text) - len(bare)] + after
