"""Two ways from the same raw record to an input, by name: `serve.py:prepare` beside what training does (ledger A-079)."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from netdyno.audits import _tables as tables
from netdyno.audits._base import View
from netdyno.errors import NetdynoError
from netdyno.targets.place import place_of
from netdyno.verdicts.preprocessing import MOST

Way = Callable[[Any], Any]
# What has to be named where the data do not say how training makes inputs of them.
UNSAID = {
    "folder": "a folder of images does not say how training reads its files",
    "table": "a table does not say how training makes numbers of its rows",
}


def way(reference: str, *, flag: str) -> Way:
    """The function that `FILE:FUNCTION` names. Raises NetdynoError."""
    where, _, name = reference.rpartition(":")
    path = Path(where).expanduser()
    if not where or not path.is_file():
        raise NetdynoError(
            f"cannot find the function `{reference}`",
            because=f"there is no file `{where or reference}`",
            hint=f"`--{flag} serve.py:prepare`, a function from one raw record to one input",
        )
    found = getattr(_module(path, reference), name, None)
    if not callable(found):
        raise NetdynoError(
            f"cannot use `{reference}`",
            because=f"`{path}` has no function `{name}`",
            hint="name a function that takes one raw record and gives one input",
        )
    return found  # type: ignore[no-any-return]


def _module(path: Path, reference: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"_netdyno_way_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise NetdynoError(
            f"cannot import `{reference}`", because="it is no Python file", hint="name a file that ends in `.py`"
        )
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise NetdynoError(
            f"cannot import `{reference}`",
            because=f"it raised {type(error).__name__}: {error}{place_of(error)}",
            hint="what runs when the file is imported must not need the rest of a service",
        ) from error
    finally:
        sys.path.pop(0)
    return module


def beside(view: View, ways: Mapping[str, Way]) -> dict[str, Any]:
    """The notes that the audit reads: the ways, and the raw records of the first training samples. Raises NetdynoError.

    A raw record is the path of a picture in a folder, a row of a table as a dictionary of words, an array's row as it is in its file,
    and of a workload what its data set gives; where that has `samples` of paths, as a folder of torchvision has, the path.
    """
    source = view.notes.get("source", "")
    if "training" not in ways and source in UNSAID:
        raise NetdynoError(
            "cannot compare the way of serving",
            because=UNSAID[source],
            hint="name that function too: `--training train.py:prepare`",
        )
    rows = [int(index) for index in view.train.indices[:MOST]]
    if source == "folder":
        names = view.notes["names"]["train"][:MOST]
        return {**ways, "raw": [str(Path(view.target) / name) for name in names]}
    if source == "table":
        return {**ways, "raw": _lines(Path(view.target).expanduser(), rows)}
    files = _files(view)
    if files is not None:
        return {**ways, "raw": [files[row] for row in rows]}
    return {**ways, "raw": list(view.train.x[: len(rows)])}


def _lines(path: Path, rows: list[int]) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header, *body = islice(tables._lines(file.readline, file), max(rows, default=-1) + 2)
    names = [name.strip() for name in header]
    return [dict(zip(names, body[row], strict=True)) for row in rows]


def _files(view: View) -> list[str] | None:
    """Paths of an image folder behind a workload's training data; None where it has none."""
    if view.workload is None:
        return None
    data, _ = view.workload.datasets()
    samples = getattr(data, "samples", None)
    if not isinstance(samples, list) or not samples or not isinstance(samples[0], tuple):
        return None
    return [str(one[0]) for one in samples] if isinstance(samples[0][0], str | Path) else None
