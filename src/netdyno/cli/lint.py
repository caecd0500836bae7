"""Wrong forms in the source of a project, without running it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import AsJson, as_json
from netdyno.cli._output import put, tell
from netdyno.errors import NetdynoError
from netdyno.lint._base import SURE, Found, Lint, Reading, fixed, lints, places
from netdyno.lint._text import is_text

# Folders in which nobody's own sources stand.
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}
Ids = list[str] | None


def lint(
    *,
    paths: Annotated[list[str] | None, Argument("Files and folders (default: this folder).", metavar="PATH")] = None,
    select: Annotated[Ids, Option(metavar="ID", help="Look for these only; repeat, or put commas between.")] = None,
    ignore: Annotated[Ids, Option(metavar="ID", help="Leave these out; repeat, or put commas between.")] = None,
    fix: Annotated[bool, Option("Write the safe fixes into the files, and show them as a diff.")] = False,
    diff: Annotated[bool, Option("Show the safe fixes as a diff, and write nothing.")] = False,
    strict: Annotated[bool, Option("Let suspicions and remarks count as found.")] = False,
    sarif: Annotated[str | None, Option(metavar="FILE", help="Write SARIF 2.1.0 to this file; `-` for stdout.")] = None,
    json: AsJson = False,
) -> int:
    """Find wrong forms in source code, without running it.

    Python files, and commands in shell scripts, workflows and Dockerfiles. What is told is certain from the source; what
    only a run can show, `netdyno doctor` finds. A comment `# netdyno: ignore[id]` excuses a line. Exit status 1 when
    something is found.
    """
    sources = read(paths or ["."])
    reading = places(sources, select=_known(select), ignore=_known(ignore))
    for file, why in reading.unread.items():
        tell(f"{file} could not be read: {why}")
    for name, why in reading.failed.items():
        tell(f"the lint `{name}` failed: {why}")
    if fix or diff:
        reading = _mended(sources, reading, write=fix)
    if sarif is not None:
        _write_sarif(sarif, reading)
    if json:
        put(
            as_json(
                {"found": [_row(each) for each in reading.found], "unread": reading.unread, "failed": reading.failed}
            )
        )
    elif sarif != "-":
        _show(reading, len(sources), silent=diff)
    return NO if any(strict or each.finding.confidence >= SURE for each in reading.found) else DONE


def read(paths: list[str]) -> dict[str, str]:
    """The sources under these paths, by file name as a person would write it. Raises NetdynoError for what is not there."""
    found: dict[str, str] = {}
    for path in paths:
        if not os.path.exists(path):
            raise NetdynoError(
                f"cannot read `{path}`", because="there is no such file or folder", hint="name files or folders"
            )
        for file in _files(path):
            try:
                with open(file, encoding="utf-8", newline="") as opened:
                    found[os.path.normpath(file)] = opened.read()
            except (OSError, UnicodeDecodeError) as error:
                tell(f"{file} could not be read: {error}")
    return found


def _files(path: str) -> Iterator[str]:
    """A file as it is named; of a folder what a lint reads, hidden folders and environments left out."""
    if os.path.isfile(path):
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(each for each in below if _is_own(folder, each))
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py") or is_text(name))


def _is_own(folder: str, name: str) -> bool:
    if name.startswith(".") and name != ".github":
        return False
    return name not in SKIPPED and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def _known(asked: Ids) -> tuple[str, ...]:
    return options.known(options.names(asked), options.files_of("lint"), kind="lint")


def _mended(sources: Mapping[str, str], reading: Reading, *, write: bool) -> Reading:
    """Shows the safe fixes as a diff; writes them where that is wanted, and then only what is left is told."""
    from netdyno.edits._base import Edit, unified

    after = fixed(sources, reading.found)
    edits = [Edit(file, sources[file], text) for file, text in after.items() if text != sources[file]]
    if edits:
        put(unified(edits))
    if not write:
        return reading
    for edit in edits:
        with open(edit.file, "w", encoding="utf-8", newline="") as opened:
            opened.write(edit.after)
    tell(f"{sum(bool(each.edits) for each in reading.found)} places fixed in {len(edits)} files")
    return reading._replace(
        found=tuple(each for each in reading.found if not (each.edits and _place(each)[0] in after))
    )


def _write_sarif(target: str, reading: Reading) -> None:
    from netdyno.reports import _sarif as sarif

    rules = {each.id: each.about for each in lints() if isinstance(each, Lint)}
    text = sarif.render((each.finding for each in reading.found), rules, root=os.getcwd())
    if target == "-":
        put(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def _row(each: Found) -> dict[str, Any]:
    file, line = _place(each)
    finding = each.finding
    return {
        "rule": finding.id,
        "state": _state(each),
        "file": file,
        "line": line,
        "says": finding.says,
        "fix": finding.fix,
        "layer": finding.layer,
        "stage": finding.stage,
        "confidence": finding.confidence,
        "fixable": bool(each.edits),
    }


def _show(reading: Reading, files: int, *, silent: bool) -> None:
    for each in () if silent else reading.found:
        file, line = _place(each)
        put(
            f"{file}:{line}: {each.finding.says} [{each.finding.id}{'' if _state(each) == 'found' else f', {_state(each)}'}]"
        )
        put(f"    fix: {each.finding.fix}")
    sure = sum(_state(each) == "found" for each in reading.found)
    safe = sum(bool(each.edits) for each in reading.found)
    tell(
        f"{sure} found, {len(reading.found) - sure} suspected or remarked, in {files} files"
        + (f"; `--fix` writes {safe} of them right" if safe else "")
    )


def _state(each: Found) -> str:
    if each.finding.stage == "note":
        return "note"
    return "found" if each.finding.confidence >= SURE else "suspected"


def _place(each: Found) -> tuple[str, int]:
    where = each.finding.where
    return (where.file if where is not None else None) or "", (where.line if where is not None else None) or 0
