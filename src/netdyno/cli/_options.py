"""What several commands ask for in the same words, and how words become values."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from netdyno.cli._declare import Argument, Option
from netdyno.errors import NetdynoError

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


class ProgressForm(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    BAR = "bar"
    LINES = "lines"
    JSON = "json"
    NONE = "none"


class Goal(StrEnum):
    """What a change must win."""

    TIME = "time"
    MEMORY = "memory"


class AnyNumerics(StrEnum):
    """What a change may do to the numbers: the classes of `records.trial.Numerics` as choices."""

    SAME_BITS = "same-bits"
    REORDERED = "reordered"
    LOWER_PRECISION = "lower-precision"
    OTHER_RANDOMNESS = "other-randomness"
    OTHER_TRAINING = "other-training"


def duration(text: str) -> float:
    """Seconds from words.

    >>> duration("1m30s"), duration("90"), duration("2.5 h")
    (90.0, 90.0, 9000.0)
    """
    bare = text.replace(" ", "").lower()
    if re.fullmatch(r"\d+(\.\d+)?", bare):
        return float(bare)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|min|[smh])", bare)
    if not parts or "".join(number + unit for number, unit in parts) != bare:
        raise _unclear(text, kind="a duration", like="90s, 3m or 1h30m")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def share(text: str) -> float:
    """A share between 0 and 1 from words.

    >>> share("5%"), share("0.05")
    (0.05, 0.05)
    """
    bare = text.replace(" ", "")
    try:
        value = float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise _unclear(text, kind="a share of a step", like="5% or 0.05")
    return value


def size(text: str) -> int:
    """Bytes from words.

    >>> size("2GiB"), size("500 MB")
    (2147483648, 500000000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]i?b|b)?", text.replace(" ", "").lower())
    if found is None:
        raise _unclear(text, kind="an amount of memory", like="2GiB or 500MB")
    return int(float(found[1]) * BYTES[found[2] or "b"])


def _unclear(text: str, *, kind: str, like: str) -> NetdynoError:
    return NetdynoError(f"cannot read `{text}`", because=f"it is not {kind}", hint=f"write {like}")


def names(given: list[str] | None) -> tuple[str, ...]:
    """Ids given one by one or with commas between them, in the form of the catalogue.

    >>> names(["pin_memory,prefetch", "threads"])
    ('pin-memory', 'prefetch', 'threads')
    """
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(word.replace("_", "-") for word in words if word)


def known(asked: tuple[str, ...], there: tuple[str, ...], *, kind: str) -> tuple[str, ...]:
    """The names, if all of them exist. Raises NetdynoError with the nearest one otherwise."""
    import difflib

    for name in asked:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            raise NetdynoError(
                f"there is no {kind} `{name}`",
                because=f"the {len(there)} there are: {', '.join(there)}",
                hint=f"did you mean `{near[0]}`?" if near else f"take a name from this list, or leave the {kind} out",
            )
    return asked


def files_of(room: str) -> tuple[str, ...]:
    """The ids of a room's plug-ins, also of other packages, by their names: nothing is imported."""
    import importlib
    import pkgutil
    from importlib.metadata import entry_points

    from netdyno.plugins import plugin_id

    package = importlib.import_module(f"netdyno.{room}")
    ours = (info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))
    theirs = (point.value for point in entry_points(group=f"netdyno.{room}"))
    return tuple(sorted(plugin_id(name) for name in (*ours, *theirs)))


def command_line() -> str:
    """The command as it was given, fit to be pasted into a shell; without the path of the program."""
    import shlex
    import sys

    return shlex.join(["netdyno", *sys.argv[1:]])


def as_json(value: Any) -> str:
    """Any record, or tuple of records, as one JSON document for stdout."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


Reference = Annotated[
    str, Argument("What to put on the dyno: `work.py:Digits`, `package.module:NAME` or `garage:digits`.")
]
Run = Annotated[str, Argument("A run: its id or a part of it, a path, or `last`.")]
StoreFolder = Annotated[Path, Option(help="Folder of the records.")]
AsJson = Annotated[bool, Option(help="Answer in JSON on stdout, and nothing else there.")]
Progress = Annotated[
    ProgressForm, Option(help="Show progress on stderr: a bar on a terminal, lines elsewhere, or JSON lines.")
]
Seed = Annotated[int, Option(help="Fixes everything that is drawn at random.")]
Budget = Annotated[str, Option(metavar="TIME", help="Wall time to spend: 90s, 10m, 1h30m.")]
STORE = Path(".netdyno")
