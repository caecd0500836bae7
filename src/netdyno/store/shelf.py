"""The store: one folder with everything that is known of past runs."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from netdyno.errors import StoreError
from netdyno.records import codec
from netdyno.records.base import Noun
from netdyno.records.environment import Ceilings
from netdyno.records.measured import Interval
from netdyno.records.record import Record
from netdyno.store import locks
from netdyno.store.disk import read_whole, sweep, write_whole


class Summary(Noun, frozen=True, kw_only=True):
    """One line about one run. `broken` says why its file cannot be read; then nothing else is known."""

    id: str
    path: str
    made_at: str = ""
    target: str = ""
    finished: bool = False
    tried: int = 0
    kept: int = 0
    speedup: Interval | None = None
    broken: str | None = None


class Store:
    """Records, evidence, artifacts and ceilings under one folder (`.netdyno/`).

    What is saved is there whole or not at all, also after a crash or on a full disk.
    """

    def __init__(self, folder: str | Path = ".netdyno") -> None:
        self.folder = Path(folder)
        self.shelf = self.folder / "records"
        self.evidence = self.folder / "evidence"
        self.artifacts = self.folder / "artifacts"
        self.saved: Path | None = None  # the record that was last written here, for whoever has to name it

    def new_id(self, name: str, *, now: datetime | None = None) -> str:
        """An id for a new run that no record here has: day, name, four random digits."""
        day = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
        while True:
            fresh = f"{day}-{slug(name)}-{secrets.token_hex(2)}"
            if not self.path(fresh).exists():
                return fresh

    def path(self, run: str) -> Path:
        """Where the record of a run lies."""
        return self.shelf / f"{run}.json"

    def save(self, record: Record) -> Path:
        """Write the record, replacing an earlier state of the same run. Raises StoreError.

        The first save takes the run's lock, a finished record gives it back.
        """
        data = codec.encode(record)
        lock = self._lock(record.id)
        if locks.hold(lock):
            sweep(self.path(record.id))
        write_whole(self.path(record.id), data)
        self.saved = self.path(record.id)
        if record.finished:
            locks.release(lock)
        return self.saved

    def release(self, run: str) -> None:
        """Give the lock of an unfinished run back, so that another process can resume it."""
        locks.release(self._lock(run))

    def load(self, run: str) -> Record:
        """The record of a run: its id, the beginning or end of its id, a path, or `last`. Raises StoreError."""
        path = self._found(run)
        try:
            return codec.decode(read_whole(path))
        except StoreError as error:
            raise StoreError(
                f"cannot read `{path}`", because=f"{error.what}: {error.because}", hint=error.hint
            ) from error

    def runs(self) -> tuple[Summary, ...]:
        """All runs, newest first; files that cannot be read are among them and say why."""
        found = [self._summary(path) for path in self._files()]
        return tuple(sorted(found, key=lambda each: (each.made_at, each.id), reverse=True))

    def records(self) -> Iterator[Record]:
        """Every record that can be read, oldest first."""
        for summary in reversed(self.runs()):
            if summary.broken is None:
                yield self.load(summary.path)

    def keep(self, data: bytes, *, suffix: str = "json") -> str:
        """Lay big evidence (a trace) beside the records; the answer is its name, made of its hash."""
        name = f"{hashlib.blake2b(data, digest_size=10).hexdigest()}.{suffix}"
        path = self.evidence / name
        if not path.exists():
            write_whole(path, data)
        return name

    def kept(self, name: str) -> bytes:
        """What `keep` laid down under `name`. Raises StoreError when it is missing or was changed."""
        data = read_whole(self.evidence / name)
        if hashlib.blake2b(data, digest_size=10).hexdigest() != name.partition(".")[0]:
            raise StoreError(
                f"cannot use `{self.evidence / name}`",
                because="its bytes do not fit its name: the file was changed or damaged",
                hint="run the measurement again",
            )
        return data

    def write_artifact(self, run: str, name: str, data: bytes) -> Path:
        """Lay a file that a run made (a report, a capsule's part) under `artifacts/<run>/`."""
        path = self.artifacts / run / name
        write_whole(path, data)
        return path

    def load_ceilings(self, environment: str) -> Ceilings | None:
        """The ceilings measured earlier in this environment, by its id; None when there are none to be read."""
        try:
            data = (self.folder / "ceilings" / f"{environment}.json").read_bytes()
            return msgspec.json.decode(data, type=Ceilings)
        except (OSError, msgspec.DecodeError):
            return None  # they are measured again, which costs seconds and loses nothing

    def save_ceilings(self, ceilings: Ceilings) -> Path:
        """Keep ceilings for later runs in the same environment."""
        path = self.folder / "ceilings" / f"{ceilings.environment}.json"
        write_whole(path, msgspec.json.encode(ceilings))
        return path

    def _lock(self, run: str) -> Path:
        return self.folder / "locks" / f"{run}.lock"

    def _files(self) -> list[Path]:
        return sorted(path for path in self.shelf.glob("*.json") if not path.name.startswith("."))

    def _summary(self, path: Path) -> Summary:
        try:
            record = codec.decode(read_whole(path))
        except StoreError as error:
            return Summary(id=path.stem, path=str(path), made_at=_written(path), broken=error.because)
        return Summary(
            id=record.id,
            path=str(path),
            made_at=record.made_at,
            target=record.target.source,
            finished=record.finished,
            tried=len(record.trials),
            kept=len(record.recipe),
            speedup=record.attribution.speedup if record.attribution is not None else None,
        )

    def _found(self, run: str) -> Path:
        if run == "last":
            return self._last()
        given = Path(run)
        if given.suffix == ".json" or os.sep in run:
            return given
        if self.path(run).exists():
            return self.path(run)
        near = [path for path in self._files() if path.stem.startswith(run) or path.stem.endswith(run)]
        if len(near) == 1:
            return near[0]
        raise self._unknown(run, near)

    def _last(self) -> Path:
        for summary in self.runs():
            if summary.broken is None:
                return Path(summary.path)
        raise StoreError(
            "there is no last run",
            because=f"`{self.shelf}` holds no record that can be read",
            hint="start one: `netdyno tune garage:digits`",
        )

    def _unknown(self, run: str, near: list[Path]) -> StoreError:
        if near:
            names = ", ".join(f"`{path.stem}`" for path in near[:5])
            return StoreError(
                f"`{run}` is not one run", because=f"{len(near)} runs fit: {names}", hint="give the whole id"
            )
        return StoreError(
            f"there is no run `{run}`",
            because=f"`{self.shelf}` has no record of that name",
            hint="`netdyno runs` lists what is there; `last` is the newest",
        )


def slug(name: str) -> str:
    """A name as it may stand in a file's name.

    >>> slug("garage:Digits CNN!")
    'garage-digits-cnn'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"


def _written(path: Path) -> str:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except OSError:
        return ""
