"""How watched runs are named on the command line."""

import contextlib
from pathlib import Path
from typing import Annotated

import msgspec

from netdyno.cli._declare import Argument
from netdyno.errors import NetdynoError
from netdyno.records.journal import STAGES
from netdyno.store.journal import ROOM, Run, runs

Watched = Annotated[str, Argument("A watched run: its id, a part of it or its name (the newest), a folder, or `last`.")]


def journal_of(asked: str, store: Path) -> Run:
    """The run that is meant. Raises NetdynoError when there is none, or a part of an id could mean several."""
    if (Path(asked) / "run.json").is_file():
        return Run(Path(asked))
    there = list(runs(store))
    if not there:
        raise NetdynoError(
            f"cannot find the watched run `{asked}`",
            because=f"`{store / ROOM}` holds none yet",
            hint="`with netdyno.watch(model, optimizer, store=...)` in a training makes one; `--store` names its folder",
        )
    if asked == "last":
        return there[0]
    for same in (
        [run for run in there if run.folder.name == asked],
        [run for run in there if _name(run) == asked][:1],
        [run for run in there if asked in run.folder.name],
    ):
        if len(same) == 1:
            return same[0]
        if same:
            raise _several(asked, same)
    raise NetdynoError(
        f"cannot find the watched run `{asked}`",
        because=f"none of the {len(there)} in `{store / ROOM}` has such an id or name",
        hint="`netdyno journals` lists them",
    )


def _name(run: Run) -> str | None:
    with contextlib.suppress(NetdynoError, msgspec.MsgspecError):  # one that cannot be read has none
        return run.info.name
    return None


def _several(asked: str, found: list[Run]) -> NetdynoError:
    few = ", ".join(f"`{run.folder.name}`" for run in found[:3])
    return NetdynoError(
        f"cannot choose a watched run from `{asked}`",
        because=f"it is a part of {len(found)} ids: {few}{' …' if len(found) > 3 else ''}",
        hint="write more of the id",
    )


def tags(given: list[str] | None) -> dict[str, str]:
    """Tags from words. Raises NetdynoError for what is no tag, and for a stage that does not exist.

    >>> tags(["stage=optim", "who=ann"])
    {'stage': 'optim', 'who': 'ann'}
    """
    found = dict(word.split("=", 1) for word in given or () if "=" in word)
    wrong = [word for word in given or () if "=" not in word]
    if wrong:
        raise NetdynoError(
            f"cannot filter by `{wrong[0]}`",
            because="a tag is a name and a value",
            hint=f"write `--tag {wrong[0]}=VALUE`, for instance `--tag stage=optim`",
        )
    if found.get("stage", STAGES[0]) not in STAGES:
        raise NetdynoError(
            f"cannot filter by the stage `{found['stage']}`",
            because="there is no such stage",
            hint=f"stages are {', '.join(f'`{each}`' for each in STAGES)}",
        )
    return found
