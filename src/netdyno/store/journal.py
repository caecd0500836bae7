"""A training run as it is written down while it goes on: a folder that only grows, and that a kill leaves readable.

    journal/RUN/
        run.json          what the run is: written once, when it begins
        events.jsonl      one line each: alerts, trips, evaluations, what the doctor reads, the end
        series/NAME.f64   points: update, seconds since the beginning, value; three little-endian doubles each
        snapshots/        states to continue from, where a tripwire took one

Whatever is written stays; a line or a point that a kill cut in two is passed over by whoever reads.
"""

import contextlib
import os
import secrets
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import numpy as np

from netdyno.errors import StoreError
from netdyno.records.journal import RunInfo
from netdyno.store.disk import explained, write_whole

ROOM = "journal"
FLUSH_S = 0.5  # a kill may cost the last second, so twice a second is enough
# A run that has written nothing for so long, and has not said that it ended, is taken to be dead or asleep.
SILENT_S = 15.0
POINT = struct.Struct("<ddd")
COLUMNS = 3
MOST_BUFFERED = 1_000_000  # points; a disk that stands still must not eat the memory of the training
_line = msgspec.json.Encoder(enc_hook=str)


class Journal:
    """Writes one run. `point` and `event` only put something into a list; a thread of its own does the rest.

    What the disk refuses is kept in `trouble` and tried again; nothing is raised into the training.
    """

    def __init__(self, folder: Path, info: RunInfo, *, flush_s: float = FLUSH_S) -> None:
        self.folder = folder
        self.info = info
        self.trouble: str | None = None
        self.began = time.monotonic()
        self._points: dict[str, list[float]] = {}
        self._lines: list[bytes] = []
        self._files: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._process = os.getpid()
        self._flush_s = flush_s
        self._thread = threading.Thread(target=self._work, name="netdyno-journal", daemon=True)
        write_whole(folder / "run.json", msgspec.json.format(_line.encode(info), indent=1))
        (folder / "series").mkdir(exist_ok=True)
        self._thread.start()

    @classmethod
    def create(cls, store: Path, info: RunInfo, **settings: Any) -> "Journal":
        """A new journal in a store's folder. Raises StoreError."""
        return cls(store / ROOM / info.id, info, **settings)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.began

    def point(self, name: str, update: int, value: float, seconds: float | None = None) -> None:
        """One value of a series; infinities and NaN are kept as what they are."""
        at = self.seconds if seconds is None else seconds
        self._points.setdefault(name, []).extend((update, at, value))

    def event(self, kind: str, update: int, **told: Any) -> None:
        """One line among the events. What JSON cannot say (NaN, infinity) becomes null."""
        self._lines.append(_line.encode({"kind": kind, "update": update, "seconds": self.seconds, **told}))

    def flush(self) -> None:
        """Everything so far to the operating system: from then on a kill cannot take it."""
        if self._process != os.getpid():  # a fork has its parent's lists, and must not write them a second time
            return
        with self._lock:
            try:
                self._write()
                self.trouble = None
            except OSError as error:
                self.trouble = f"{type(error).__name__}: {error}"
                self._shorten()

    def close(self, reason: str, update: int, **told: Any) -> None:
        """The last line, and the end of the thread that writes."""
        if self._closing.is_set():
            return
        self.event("end", update, reason=reason, **told)
        self._closing.set()
        if self._process == os.getpid():
            self._thread.join(timeout=10.0)
            self.flush()
            for file in self._files.values():
                with contextlib.suppress(OSError):
                    file.close()

    def _work(self) -> None:
        while not self._closing.wait(self._flush_s):
            self.flush()

    def _write(self) -> None:
        # The training thread never waits for the disk: it only ever adds to the ends of these lists.
        for name, values in list(self._points.items()):
            if values:
                self._append(f"series/{quote(name, safe='')}.f64", np.asarray(_taken(values), dtype="<f8").tobytes())
        if self._lines:
            self._append("events.jsonl", b"\n".join(_taken(self._lines)) + b"\n")

    def _append(self, name: str, data: bytes) -> None:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = open(self.folder / name, "ab", buffering=0)  # noqa: SIM115  open for the whole run
        file.write(data)

    def _shorten(self) -> None:
        for values in self._points.values():
            if len(values) > COLUMNS * MOST_BUFFERED:
                del values[: COLUMNS * MOST_BUFFERED // 2]


def _taken(values: list[Any]) -> list[Any]:
    """What is in the list now, taken out of it; what is added meanwhile stays."""
    taken = values[:]
    del values[: len(taken)]
    return taken


class Series(NamedTuple):
    """Points of one name, in the order of time: updates, seconds since the beginning, values (each float64, shape (n,))."""

    updates: np.ndarray
    seconds: np.ndarray
    values: np.ndarray


class Run:
    """Reads one journal, also while it is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def info(self) -> RunInfo:
        """What the run is. Raises StoreError when it cannot be read."""
        with explained(self.folder / "run.json", verb="read"):
            return msgspec.json.decode((self.folder / "run.json").read_bytes(), type=RunInfo)

    def events(self, start: int = 0) -> tuple[list[dict[str, Any]], int]:
        """The events from byte `start` on, and where to go on reading."""
        path = self.folder / "events.jsonl"
        if not path.exists():
            return [], start
        with explained(path, verb="read"), path.open("rb") as file:
            file.seek(start)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        return [event for line in whole.splitlines() if (event := _event(line)) is not None], start + len(whole)

    def names(self) -> list[str]:
        """The series that have a point, sorted."""
        return sorted(unquote(path.stem) for path in (self.folder / "series").glob("*.f64"))

    def length(self, name: str) -> int:
        """How many points a series has; none for a name that is not there."""
        with contextlib.suppress(OSError):  # none of that name, or one too long for any file
            return self._path(name).stat().st_size // POINT.size
        return 0

    def series(self, name: str, start: int = 0) -> Series:
        """The points of a series from number `start` on; none for a name that is not there."""
        path, size = self._path(name), self.length(name)
        if size <= start:
            return Series(*(np.empty(0) for _ in range(COLUMNS)))
        rows = np.memmap(path, dtype="<f8", mode="r", offset=start * POINT.size, shape=(size - start, COLUMNS))
        return Series(*(np.asarray(rows[:, column]) for column in range(COLUMNS)))

    @property
    def touched(self) -> float:
        """When something was written last, in seconds since the epoch."""
        newest = (self.folder / "run.json").stat().st_mtime
        for path in (self.folder / "events.jsonl", *(self.folder / "series").glob("*.f64")):
            with contextlib.suppress(OSError):
                newest = max(newest, path.stat().st_mtime)
        return newest

    @property
    def end(self) -> dict[str, Any] | None:
        """The event that says how the run ended; None while it goes on, and when it was killed."""
        events, _ = self.events(max(0, self._size() - (1 << 16)))
        return next((event for event in reversed(events) if event["kind"] == "end"), None)

    def state(self, now: Callable[[], float] = time.time) -> str:
        """`running`, `silent` (neither ended nor writing) or the reason of its end: ended, failed, stopped."""
        end = self.end
        if end is not None:
            return str(end["reason"])
        return "running" if now() - self.touched < SILENT_S else "silent"

    def _path(self, name: str) -> Path:
        return self.folder / "series" / f"{quote(name, safe='')}.f64"

    def _size(self) -> int:
        path = self.folder / "events.jsonl"
        return path.stat().st_size if path.exists() else 0


def runs(store: Path, *, tags: Mapping[str, str] | None = None) -> Iterator[Run]:
    """The journals of a store, the newest first: all, or exactly those that carry all of these tags."""
    folders = [path.parent for path in (store / ROOM).glob("*/run.json")]
    for folder in sorted(folders, key=lambda folder: folder.name, reverse=True):
        run = Run(folder)
        if not tags or tags.items() <= _tags(run).items():
            yield run


def _tags(run: Run) -> dict[str, str]:
    with contextlib.suppress(StoreError, msgspec.MsgspecError):  # one that cannot be read carries none
        return run.info.tags
    return {}


def new_id() -> str:
    """Names sort as the runs began."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def new_info(name: str, *, tags: Mapping[str, str], **told: Any) -> RunInfo:
    """What a run that begins now is."""
    return RunInfo(
        id=new_id(), name=name, tags=dict(tags), began_at=datetime.now(UTC).isoformat(timespec="seconds"), **told
    )


def _event(line: bytes) -> dict[str, Any] | None:
    # The first line after `start` may be the second half of one, and a disk may have kept half of the last.
    with contextlib.suppress(msgspec.DecodeError):
        event = msgspec.json.decode(line)
        return event if isinstance(event, dict) and "kind" in event else None
    return None


def decimated(series: Series, *, points: int) -> Series:
    """At most about `points` of them, so chosen that each stretch keeps its lowest and highest value.

    Not finite values are kept where they are: they are what one looks for.
    """
    length = len(series.values)
    if length <= points:
        return series
    stretch = -(-length // max(1, points // 2))
    starts = np.arange(0, length, stretch)
    finite = np.isfinite(series.values)
    low = _extreme(np.where(finite, series.values, np.inf), starts, stretch, np.argmin)
    high = _extreme(np.where(finite, series.values, -np.inf), starts, stretch, np.argmax)
    odd = np.flatnonzero(~finite)[:points]
    kept = np.unique(np.concatenate([low, high, odd, [0, length - 1]]))
    return Series(*(column[kept] for column in series))


def _extreme(values: np.ndarray, starts: np.ndarray, stretch: int, choose: Callable[..., Any]) -> np.ndarray:
    whole = len(values) // stretch * stretch
    found = choose(values[:whole].reshape(-1, stretch), axis=1) + starts[: whole // stretch]
    rest = values[whole:]
    return np.append(found, whole + choose(rest)) if len(rest) else found
