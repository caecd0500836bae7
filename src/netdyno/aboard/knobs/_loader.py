"""What all changes of a loader's arguments share: they are made while the script builds its loaders."""

import io
from collections.abc import Callable
from typing import Any

from ._base import drop
from ._samples import stream

Arguments = dict[str, Any]
# Handles of these cannot be shared between processes; a worker would read at another's place or from a dead line.
HANDLES = ("h5py", "_sqlite3", "sqlite3", "lmdb", "_lmdb", "cpython_lmdb", "socket", "_socket", "mmap", "zipfile", "tarfile", "netCDF4", "tables")  # fmt: skip
DEPTH = 3  # a data set in a subset in a wrapper


class Rebinding:
    """Between `on` and `off` every loader that is built goes through `change`."""

    def __init__(self, view: Any, change: Callable[[Any, Arguments], Arguments]) -> None:
        self._view = view
        self._change = change

    def on(self) -> None:
        self._view.loader_arguments.append(self._change)

    def off(self) -> None:
        drop(self._view.loader_arguments, self._change)


def with_workers(arguments: Arguments, workers: int) -> Arguments:
    """The arguments with so many workers, without what is impossible with them."""
    changed = {**arguments, "num_workers": workers}
    if not workers:
        # Each of these is refused by PyTorch without workers.
        changed.pop("prefetch_factor", None)
        changed.pop("multiprocessing_context", None)
        changed.pop("persistent_workers", None)
        changed.pop("timeout", None)
    return changed


def no_loader(view: Any) -> str | None:
    return None if view.loaders else "no DataLoader feeds the training"


def bound_to_process(dataset: Any) -> str | None:
    """Why workers must not get a copy of this data set, or None."""
    if stream(dataset):
        return "the data set is a stream: every worker would read all of it"
    held = _held(dataset, DEPTH)
    return f"the data set holds {held}, which a worker cannot share" if held else None


def _held(thing: Any, depth: int) -> str | None:
    import torch

    if isinstance(thing, torch.Tensor):
        return f"a tensor on `{thing.device}`" if thing.device.type != "cpu" else None
    if isinstance(thing, io.IOBase) or type(thing).__module__.split(".")[0] in HANDLES:
        return f"an open `{type(thing).__name__}`"
    if depth <= 0:
        return None
    inside = list(getattr(thing, "__dict__", {}).values())
    if isinstance(thing, list | tuple):
        inside += thing[:8]  # what a list of samples holds shows in the first few
    elif isinstance(thing, dict):
        inside += list(thing.values())[:8]
    return next((held for each in inside if (held := _held(each, depth - 1))), None)
