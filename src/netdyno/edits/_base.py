"""What an edit is, and how a recipe of changes becomes a patch that a person would have written."""

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import libcst as cst

from netdyno import plugins
from netdyno.edits._tree import Code, Uncertain
from netdyno.records.trial import Change, Scalar

BOM = "\ufeff"


class Site(NamedTuple):
    """Where it happened, as a running script was seen to do it."""

    file: str
    line: int


class Sites(NamedTuple):
    """What is known of a script's source from having watched it run. Files are named as `patch` names them.

    A kind that was not seen may be empty: then a change needs the source itself to leave one possibility.
    """

    loaders: tuple[Site, ...] = ()  # constructors of the loaders that training reads
    optimizers: tuple[Site, ...] = ()  # constructors
    models: tuple[Site, ...] = ()  # constructors
    forwards: tuple[Site, ...] = ()  # calls of the model in training
    losses: tuple[Site, ...] = ()  # calls that give the loss
    backwards: tuple[Site, ...] = ()
    evaluations: tuple[Site, ...] = ()  # calls of the model without gradients
    main: str = ""  # the script's own file

    def of(self, kind: str) -> tuple[Site, ...]:
        found: tuple[Site, ...] = getattr(self, kind)
        return found


class Here(NamedTuple):
    """The sites as one file sees them."""

    file: str
    sites: Sites

    def lines(self, kind: str) -> tuple[int, ...]:
        """The lines of this file where it was seen."""
        return tuple(dict.fromkeys(site.line for site in self.sites.of(kind) if site.file == self.file))

    def elsewhere(self, kind: str) -> bool:
        """It was seen, and never in this file: so what looks like it here is something else."""
        return bool(self.sites.of(kind)) and not self.lines(kind)


class Edit(NamedTuple):
    """One file, before and after: whole sources."""

    file: str
    before: str
    after: str


class Unsafe(NamedTuple):
    """A change that this source does not take with certainty, and why, in words a user can read."""

    change: str
    where: Site | None
    why: str


class Plugin(Protocol):
    """One file of this room.

    `KINDS` are the kinds of sites it takes hold of: their files are edited, or the script's own where none was seen.
    `STAGE` orders a recipe as the interventions' stages do.
    `edit` gives the changed module, or raises `Uncertain`.
    """

    KINDS: tuple[str, ...]
    STAGE: int

    def edit(self, code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module: ...


@cache
def catalogue() -> dict[str, ModuleType]:
    """Every change that can be written into a source, by id."""
    return {name: found for name, found in plugins.modules("edits") if isinstance(found, ModuleType)}


def patched(change: Change, source: str, sites: Sites, *, file: str) -> str | Unsafe:
    """The source as a person would change it, or why that is not certain. Unchanged where it does so already.

    Read the file with `newline=""`, so that the ends of lines come back as they were.
    """
    plugin: Any = catalogue().get(change.id)
    if plugin is None:
        return Unsafe(change.id, None, "it is no edit of a script's source")
    text = source.removeprefix(BOM)
    try:
        after = _edited(plugin, change, text, Here(file, sites))
    except Uncertain as reason:
        return Unsafe(change.id, Site(file, reason.line) if reason.line else None, reason.why)
    return source[: len(source) - len(text)] + after


def _edited(plugin: Any, change: Change, text: str, here: Here) -> str:
    after: str = plugin.edit(Code(_parsed(text)), change.settings, here).code
    if after != text and (says := _broken(after)):
        raise Uncertain(f"the edited source would not compile: {says}")
    return after


def _parsed(text: str) -> cst.Module:
    if says := _broken(text):
        raise Uncertain(f"the source does not compile as it is: {says}")
    try:
        module = cst.parse_module(text)
    except Exception as error:
        raise Uncertain(f"the source cannot be read without loss: {type(error).__name__}") from error
    if module.code != text:
        raise Uncertain("the source cannot be read without loss")
    return module


def _broken(text: str) -> str | None:
    try:
        compile(text, "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return str(error)
    return None


def patch(
    recipe: Iterable[Change], files: Mapping[str, str], sites: Sites
) -> tuple[tuple[Edit, ...], tuple[Unsafe, ...]]:
    """All changes of a recipe, one after another: what became of the files, and which changes were left out.

    A change is written wholly or not at all: where one of its places is not certain, none is touched.
    """
    now = dict(files)
    unsafe: list[Unsafe] = []
    for change in sorted(recipe, key=lambda each: getattr(catalogue().get(each.id), "STAGE", 0)):
        moved = _moved(sites, files, now)
        done = {file: patched(change, now[file], moved, file=file) for file in _places(change, sites, files)}
        refused = [answer for answer in done.values() if isinstance(answer, Unsafe)]
        if not done:
            refused = [Unsafe(change.id, None, "it belongs into a file that is none of the script's own")]
        unsafe += [_back(answer, moved, sites) for answer in refused]
        if not refused:
            now |= {file: answer for file, answer in done.items() if isinstance(answer, str)}
    edits = tuple(Edit(file, before, now[file]) for file, before in files.items() if now[file] != before)
    return edits, tuple(unsafe)


def _places(change: Change, sites: Sites, files: Mapping[str, str]) -> tuple[str, ...]:
    """The files that a change takes hold of: where its first kind was seen, or the script's own.

    What was seen in a package is set from the script, by an argument to the package's own classes.
    """
    plugin: Any = catalogue().get(change.id)
    kinds: tuple[str, ...] = getattr(plugin, "KINDS", ())
    seen = next((sites.of(kind) for kind in kinds if sites.of(kind)), ())
    own = tuple(dict.fromkeys(site.file for site in seen if site.file in files))
    return own or tuple(file for file in (sites.main,) if file in files)


def _moved(sites: Sites, before: Mapping[str, str], after: Mapping[str, str]) -> Sites:
    """The sites where their lines stand after edits above and around them."""
    maps = {file: _lines_map(before[file], after[file]) for file in before if before[file] != after[file]}
    kinds: dict[str, Any] = {
        kind: tuple(Site(site.file, maps.get(site.file, {}).get(site.line, site.line)) for site in sites.of(kind))
        for kind in Sites._fields[:-1]
    }
    return sites._replace(**kinds)


def _back(answer: Unsafe, moved: Sites, sites: Sites) -> Unsafe:
    """A refusal that names the line of the source as the user has it, where the line is that of a site."""
    for kind in Sites._fields[:-1]:
        for now, then in zip(moved.of(kind), sites.of(kind), strict=True):
            if answer.where == now and now != then:
                return answer._replace(where=then, why=answer.why.replace(f"line {now.line} ", f"line {then.line} "))
    return answer


def _lines_map(before: str, after: str) -> dict[int, int]:
    """From each line's number to its number afterwards; what was only indented is still the same line."""
    old, new = ([line.strip() for line in _lines(text)] for text in (before, after))
    found: dict[int, int] = {}
    for tag, low, high, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for index in range(low, high):
            if tag == "equal":
                found[index + 1] = start + index - low + 1
            elif tag == "replace":
                found[index + 1] = _likest(old[index], new, start, end) + 1
    return found


def _likest(line: str, lines: list[str], start: int, end: int) -> int:
    return max(range(start, end), key=lambda at: difflib.SequenceMatcher(None, line, lines[at]).ratio())


def unified(edits: Iterable[Edit]) -> str:
    """The edits as one unified diff that `patch -p1` and `git apply` take."""
    return "".join(_diff(edit) for edit in edits)


def _diff(edit: Edit) -> str:
    name = edit.file.lstrip("/")
    tail = "\t" if " " in name else ""  # both tools read a name with blanks up to a tab
    lines = difflib.unified_diff(_lines(edit.before), _lines(edit.after), f"a/{name}{tail}", f"b/{name}{tail}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines with their ends, as diff tools count them: a form feed ends no line."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
