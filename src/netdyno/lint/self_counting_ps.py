"""Processes are counted by a search that finds itself.

Looks for:  `ps ... | grep NAME | wc -l` without `grep -v grep` or a bracket in the name.
Wrong:      `ps aux | grep python | wc -l`: the search counts too, and so do other people's processes.
Right:      `pgrep -c -u "$USER" python`; for memory, `smem` or `/proc/PID/smaps_rollup`
Not this:   `pgrep`; a search that leaves itself out.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix='count with `pgrep -c -u "$USER" NAME`; for memory read `/proc/PID/smaps_rollup`',
    layer="memory",
    stage="note",
    ledger=("C-086",),
    confidence=0.75,
)
def self_counting_ps(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        parts = " ".join(command.words).replace("$(", " ").split("|")
        words = [part.split() for part in parts]
        if len(words) < 3 or not all(words[:3]) or "ps" not in words[0]:
            continue
        search = words[1]
        if search[0] == "grep" and "-v" not in search and "[" not in " ".join(search) and words[2][:2] == ["wc", "-l"]:
            yield Hit(command.line, "the search counts itself, and other people's processes")


BAD = ("ps aux | grep python | wc -l\n",)
GOOD = ("pgrep -c python\n", "ps aux | grep python | grep -v grep | wc -l\n", "ps aux | grep [p]ython | wc -l\n")
