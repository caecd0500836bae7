"""The room's own machinery: a watch that begins and ends with a framework's run. One file is one framework."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

from netdyno.errors import NetdynoError
from netdyno.monitor import run
from netdyno.monitor.alerts import Sink


class Wishes(TypedDict, total=False):
    """What `netdyno.watch` is asked for, in its own words; what it is to watch, the framework says."""

    run: str
    stage: str | None
    tags: Mapping[str, str] | None
    settings: Mapping[str, Any] | None
    budget: float
    everything: bool
    on_trip: run.OnTrip
    alerts: Iterable[Sink]
    quiet: bool
    store: str | Path


class Watched:
    """Watches each run of a framework, one journal for each. A copy of it, or a pickle, keeps the wishes and leaves the watch."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self.watch: run.Watch | None = None

    def begin(self, model: Any, optimizer: Any, *, settings: Mapping[str, Any] | None = None, **parts: Any) -> None:
        """A run begins. What the user said of it stands above what the framework knows."""
        self.end()  # a framework that starts over, with a smaller batch perhaps, does not say that it gave up
        wishes: dict[str, Any] = {**self.wishes, "settings": {**plain(settings), **(self.wishes.get("settings") or {})}}
        self.watch = run.watch(model, optimizer, **parts, **wishes).start()

    def evaluated(self, values: Mapping[str, Any], *, without: str = "") -> None:
        """An evaluation gave these; what is no number is left out, and so is the word that each name begins with."""
        found = {name.removeprefix(without): value for name, value in numbers(values).items()}
        if self.watch is not None and found:
            found.pop("update", None)  # that is the watch's own word
            self.watch.evaluated(update=None, **found)

    def end(self, error: BaseException | None = None) -> None:
        """The run is over: well, or with this error."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.__exit__(None if error is None else type(error), error, None)

    def __getstate__(self) -> dict[str, Any]:
        return {"wishes": self.wishes, "watch": None}

    def __deepcopy__(self, _: Any) -> "Watched":
        return Watched(self.wishes)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those values that are one number each.

    >>> numbers({"loss": 0.5, "name": "best", "accuracy": True})
    {'loss': 0.5}
    """
    found = {}
    for name, value in values.items():
        if isinstance(value, str | bytes | bool):
            continue
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # None, a list, a tensor of several numbers
            found[str(name)] = float(value)
    return found


def plain(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those settings that are one word or number each.

    >>> plain({"lr": 0.1, "layers": [1, 2], "name": "adam"})
    {'lr': 0.1, 'name': 'adam'}
    """
    return {str(name): value for name, value in (settings or {}).items() if isinstance(value, str | float | int | bool)}


def bare(optimizer: Any) -> Any:
    """The optimizer itself, out of what a framework has wrapped around it."""
    inner = getattr(optimizer, "optimizer", None)
    return bare(inner) if hasattr(inner, "param_groups") else optimizer


def needed(name: str, *, install: str) -> ModuleType:
    """The framework. Raises NetdynoError that says what to install where it is not there."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NetdynoError(
            f"cannot watch a run of `{name}`",
            because=f"it cannot be imported: {error}",
            hint=f"`pip install {install}`",
        ) from error
