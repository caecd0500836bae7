"""How a command line names an unmodified script: `train.py -- --epochs 3`, `--module pkg`, or a whole command after `--`."""

import os
from typing import TYPE_CHECKING, Annotated

from netdyno.cli._declare import Argument, Option, Rest
from netdyno.errors import NetdynoError

if TYPE_CHECKING:
    from netdyno.targets.script import Script, Way

Words = Annotated[
    tuple[str, ...],
    Rest("the arguments of the script, or a whole command: `-- torchrun --nproc_per_node=2 train.py --epochs 3`"),
]
Module = Annotated[
    str | None, Option(metavar="NAME", short="-m", help="Put `python -m NAME` on the dyno; its arguments after `--`.")
]
InPlace = Annotated[
    bool, Option(help="Run the script in its own folder, not in a scratch copy: what it writes stays there.")
]
Online = Annotated[bool, Option(help="Let a script reach model and data hubs; experiment trackers stay offline.")]
Updates = Annotated[
    int | None,
    Option(metavar="N", least=1, help="Watch the script for N updates.", default="half a minute of training"),
]
Target = Annotated[
    str | None,
    Argument(
        "What to put on the dyno: a script `train.py`, or a workload `work.py:Digits`, `package.module:NAME`, "
        "`garage:digits`.",
    ),
]


def script_named(reference: str | None, words: tuple[str, ...], module: str | None) -> "Script | None":
    """The script that was named, or None when it is a workload or a run. Raises NetdynoError.

    PyTorch is not imported for it.
    """
    from netdyno.targets.script import names_script, parse

    if module is not None:
        return parse(None, words if reference is None else (reference, *words), module=module)
    if reference is None:
        return parse(None, words) if words else None
    missing = reference.endswith(".py") and ":" not in reference and not os.path.exists(reference)
    if names_script(reference) or missing:
        return parse(reference, words)
    if words:
        raise NetdynoError(
            f"`{reference}` takes no words after `--`",
            because="it is not a script: a script is a .py file that is there and declares no Workload",
            hint="give the script's path, or its whole command after `--`",
        )
    return None


def way(*, in_place: bool, online: bool, updates: int | None = None) -> "Way":
    """How the script is to be run."""
    from netdyno.targets.script import Way

    return Way(in_place=in_place, online=online, updates=updates)
