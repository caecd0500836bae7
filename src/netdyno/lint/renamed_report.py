"""A profile is written under an ending that no viewer knows.

Looks for:  `nsys profile -o NAME.nsys`.
Wrong:      `-o run.nsys`: the file is called `run.nsys.nsys-rep`, and nothing finds it as `run.nsys`.
Right:      `-o run`, which writes `run.nsys-rep`; `nsys stats run.nsys-rep` for tables
Not this:   a name without an ending.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="leave the ending out: `-o run` writes `run.nsys-rep`",
    layer="compute",
    stage="note",
    ledger=("C-092",),
    confidence=0.8,
)
def renamed_report(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        name = (command.flag("-o") or command.flag("--output") or "") if command.program("nsys") else ""
        if name.endswith(".nsys"):
            yield Hit(command.line, f"the profile will be called `{name}.nsys-rep`")


BAD = ("nsys profile -o run.nsys python train.py\n",)
GOOD = ("nsys profile -o run python train.py\n",)
