"""What stands in the list: one line for each run, made without reading a series."""

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import field

from netdyno.errors import StoreError
from netdyno.records.base import Noun
from netdyno.records.journal import RunInfo
from netdyno.store import Store, Summary
from netdyno.store.journal import ROOM, SILENT_S, Run

LOSS = "loss"
# Of a run without a loss, this series says how far it is.
PACE = "updates_per_second"


class Line(Noun, frozen=True, kw_only=True):
    """One run of the list. A loss that is no number has its name in `loss_is`; `broken` says why nothing else is known."""

    id: str
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    state: str = "silent"
    says: str = ""
    began_at: str = ""
    seconds: float = 0.0
    updates: int = 0
    loss: float | None = None
    loss_is: str = ""
    alerts: dict[str, int] = field(default_factory=dict)
    broken: str | None = None


class Known:
    """What is remembered of one run, so that the next list only reads what was added."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.info: RunInfo | None = None
        self.read = 0
        self.alerts: Counter[str] = Counter()
        self.end: dict[str, Any] | None = None
        self.seconds = 0.0
        self.last: Line | None = None

    def line(self, now: Callable[[], float]) -> Line:
        """The run as it stands. Raises StoreError when it cannot be read."""
        if self.last is not None and self.end is not None:
            return self.last  # what has ended stays as it is
        if self.info is None:
            self.info = self.run.info
        self._read_on()
        self.last = self._line(self.info, now)
        return self.last

    def _read_on(self) -> None:
        events, self.read = self.run.events(self.read)
        for event in events:
            self.seconds = max(self.seconds, _number(event.get("seconds")))
            if event["kind"] == "alert":
                alert = event.get("alert")
                self.alerts[str(alert.get("severity")) if isinstance(alert, dict) else "warning"] += 1
            elif event["kind"] == "end":
                self.end = event

    def _line(self, info: RunInfo, now: Callable[[], float]) -> Line:
        update, seconds, loss = self._newest(LOSS) or (0.0, 0.0, None)
        pace = self._newest(PACE) or (0.0, 0.0, 0.0)
        end = self.end or {}
        return Line(
            id=info.id,
            name=info.name,
            tags=info.tags,
            state=str(end.get("reason", "ended")) if self.end else self._state(now),
            says=str(end.get("says") or ""),
            began_at=info.began_at,
            seconds=max(self.seconds, seconds, pace[1]),
            updates=int(max(update, pace[0], _number(end.get("updates")))),
            loss=loss if loss is not None and math.isfinite(loss) else None,
            loss_is=odd(loss) if loss is not None else "",
            alerts=dict(self.alerts),
        )

    def _state(self, now: Callable[[], float]) -> str:
        return "running" if now() - self.run.touched < SILENT_S else "silent"

    def _newest(self, name: str) -> tuple[float, float, float] | None:
        count = self.run.length(name)
        if not count:
            return None
        piece = self.run.series(name, count - 1)
        return float(piece.updates[-1]), float(piece.seconds[-1]), float(piece.values[-1])


class Listing:
    """The runs of a store, and its records; each call reads what is new since the last one."""

    def __init__(self, store: Path, *, now: Callable[[], float] = time.time) -> None:
        self.store = store
        self._now = now
        self._known: dict[str, Known] = {}
        self._records: tuple[object, tuple[Summary, ...]] = (None, ())
        self._lock = threading.Lock()

    def runs(self) -> list[Line]:
        """All runs, the newest first; those that cannot be read are among them and say why."""
        with self._lock:
            return [self._line(name) for name in sorted(self.names(), reverse=True)]

    def names(self) -> set[str]:
        """The journals that are there, by the name of their folder."""
        with contextlib.suppress(OSError):
            return {each.name for each in (self.store / ROOM).iterdir() if (each / "run.json").is_file()}
        return set()

    def run(self, name: str) -> Run | None:
        """A run of this store; None for any other word: no path is ever made of what somebody asked for."""
        folder = self.store / ROOM / name if name in self.names() else None
        if folder is None or not _within(folder, self.store / ROOM):
            return None
        return Run(folder)

    def records(self) -> tuple[Summary, ...]:
        """The records of the shelf, the newest first."""
        with self._lock:
            shelf = Store(self.store)
            seen = tuple(_stamps(shelf.shelf))
            if seen != self._records[0]:
                self._records = (seen, shelf.runs())
            return self._records[1]

    def record(self, name: str) -> Path | None:
        """The file of a record of this store; None for any other word."""
        found = (Path(each.path) for each in self.records() if each.id == name and each.broken is None)
        return next((path for path in found if _within(path, Store(self.store).shelf)), None)

    def _line(self, name: str) -> Line:
        folder = self.store / ROOM / name
        if not _within(folder, self.store / ROOM):
            return Line(id=name, state="broken", broken="its folder lies outside the store")
        known = self._known.setdefault(name, Known(folder))
        try:
            return known.line(self._now)
        except StoreError as error:
            return Line(id=name, state="broken", broken=error.because)
        except (OSError, ValueError) as error:  # half a file, or a field of another version
            return Line(id=name, state="broken", broken=f"{type(error).__name__}: {error}")


def odd(value: float) -> str:
    """The name of what is no number, and nothing for a number.

    >>> odd(float("-inf")), odd(1.0)
    ('-∞', '')
    """
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "∞" if value > 0 else "-∞"


def _within(path: Path, folder: Path) -> bool:
    """Whether a path stays in the folder when all links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def _stamps(folder: Path) -> Iterator[tuple[str, int, int]]:
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError):
            stat = path.stat()
            yield path.name, stat.st_mtime_ns, stat.st_size


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
