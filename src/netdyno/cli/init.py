"""A commented work.py for a user's own model."""

from pathlib import Path
from typing import Annotated

from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import AsJson, as_json
from netdyno.cli._output import put, tell
from netdyno.errors import NetdynoError
from netdyno.store.disk import write_whole


def init(
    *,
    file: Annotated[Path, Argument("Where to write it.")] = Path("work.py"),
    force: Annotated[bool, Option(help="Replace a file that is there.")] = False,
    json: AsJson = False,
) -> int:
    """Write a commented work.py for your model.

    It declares a workload, runs as it is, and is yours to change.
    """
    from netdyno.targets.template import template

    if file.exists() and not force:
        raise NetdynoError(
            f"cannot write `{file}`",
            because="there is such a file already",
            hint=f"give another name, `netdyno init other.py`, or replace it: `netdyno init {file} --force`",
        )
    write_whole(file, template().encode())
    put(as_json({"file": str(file)}) if json else str(file))
    tell(f"next: `netdyno doctor {file}`, then `netdyno tune {file}`")
    return DONE
