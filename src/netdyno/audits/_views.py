"""From what a user names to what audits look at: a workload, a folder of images, a table or a file of arrays as a View."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from netdyno.audits import _arrays as arrays
from netdyno.audits import _folders as folders
from netdyno.audits import _tables as tables
from netdyno.audits import _workloads as workloads
from netdyno.audits._base import View
from netdyno.errors import NetdynoError, TargetError

# Enough that a fault of a per cent shows dozens of times, and few enough that neighbours take seconds.
SAMPLE = 4000
FORMS = (
    "a workload `work.py:Digits`, a training script `train.py`, a folder of images in folders named like their classes, "
    "a table `data.csv`, or arrays `data.npz`"
)
TABLES = (".csv", ".tsv", ".txt")


class Named(NamedTuple):
    """What a user says about columns and files, beside the target itself."""

    target_column: str | None = None
    test: str | None = None
    group_column: str | None = None
    time_column: str | None = None


NOTHING = Named()


def opened(target: str, *, named: Named = NOTHING, sample: int = SAMPLE, seed: int = 0) -> View:
    """The data that `target` names: at most `sample` samples of each split, chosen under `seed`. Raises NetdynoError."""
    path = Path(target).expanduser()
    if path.is_dir():
        _refuse(named, "a folder of images")
        return folders.opened(path, sample=sample, seed=seed)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        _refuse(named, "a file of arrays")
        return _there(path, lambda: arrays.opened(path, sample=sample, seed=seed))
    if suffix in TABLES:
        return _there(path, lambda: tables.opened(path, tables.Asked(*named), sample=sample, seed=seed))
    if ":" in target or suffix == ".py" or _a_module(target):
        _refuse(named, "a workload")
        return workloads.opened(target, sample=sample, seed=seed)
    raise _unreadable(target, path)


def _a_module(target: str) -> bool:
    return all(part.isidentifier() for part in target.split(".")) and "." in target


def _there(path: Path, read: Callable[[], View]) -> View:
    if path.is_file():
        return read()
    raise TargetError(
        f"cannot find `{path}`",
        because=f"there is no such file in `{Path.cwd()}`",
        hint="check the path and its spelling",
    )


def _refuse(named: Named, what: str) -> None:
    for flag, value in named._asdict().items():
        if value is not None:
            raise NetdynoError(
                f"cannot use `--{flag.replace('_', '-')}` here",
                because=f"it names something of a table, and this is {what}",
                hint="leave it out, or give a table: `netdyno data data.csv --target-column label`",
            )


def _unreadable(target: str, path: Path) -> TargetError:
    if path.suffix.lower() in {".parquet", ".xlsx", ".feather", ".json", ".jsonl", ".pt", ".pkl", ".npy", ".h5"}:
        return TargetError(
            f"cannot look at `{target}`",
            because=f"files that end in `{path.suffix}` are not read",
            hint="write it as a CSV table or as .npz with x_train, y_train, x_test, y_test, or declare a workload",
        )
    because = (
        "it is no file and no folder that is there" if not path.exists() else f"its ending `{path.suffix}` is not known"
    )
    return TargetError(f"cannot look at `{target}`", because=because, hint=f"give {FORMS}")
