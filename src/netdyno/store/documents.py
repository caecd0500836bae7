"""Documents beside the records: looks at data in `audits/`, searches in `studies/`, deployments in `shipments/`, load tests in
`loads/`. Whole or not at all."""

import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from netdyno.errors import StoreError
from netdyno.records.audit import AUDIT_VERSION, Audit
from netdyno.records.codec import _not_finite
from netdyno.records.deployment import SHIPMENT_VERSION, Shipment
from netdyno.records.load import LOAD_VERSION, Load
from netdyno.records.study import STUDY_VERSION, Study
from netdyno.store.disk import read_whole, write_whole
from netdyno.store.shelf import slug

Document = TypeVar("Document", Audit, Load, Shipment, Study)


class Kind(NamedTuple):
    """One kind of document: the folder it lies in, its newest version, its name, and a command that makes one."""

    folder: str
    version: int
    noun: str
    command: str


KINDS: Mapping[type[Any], Kind] = {
    Audit: Kind("audits", AUDIT_VERSION, "look at data", "netdyno data garage:digits"),
    Load: Kind("loads", LOAD_VERSION, "load test", 'netdyno load http://127.0.0.1:8000 --slo "p99<=15ms"'),
    Shipment: Kind("shipments", SHIPMENT_VERSION, "deployment", "netdyno deploy ship.py:Digits"),
    Study: Kind("studies", STUDY_VERSION, "study", "netdyno learn garage:digits"),
}


class Line(NamedTuple):
    """One document in a list. `broken` says why its file cannot be read; then only its name is known."""

    id: str
    path: Path
    made_at: str = ""
    target: str = ""
    finished: bool = False
    broken: str | None = None


class _Header(msgspec.Struct):
    """All that is read of a document before its version is known."""

    schema_version: int


class _Summary(msgspec.Struct):
    """What a list says of a document; the rest of a long study is not decoded for it."""

    id: str
    made_at: str
    target: str
    finished: bool = False


class Documents:
    """The documents of one store's folder.

    >>> import tempfile
    >>> shelf = Documents(tempfile.mkdtemp())
    >>> path = shelf.save(Audit(id="a", made_by="netdyno", made_at="2026-01-01", command="", target="data.csv"))
    >>> shelf.load(Audit, "last").target, [line.id for line in shelf.list(Audit)]
    ('data.csv', ['a'])
    """

    def __init__(self, folder: str | Path = ".netdyno") -> None:
        self.folder = Path(folder)

    def new_id(self, kind: type[Any], name: str, *, now: datetime | None = None) -> str:
        """An id that no document of this kind has: day, name, four random digits."""
        day = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
        while True:
            fresh = f"{day}-{slug(name)}-{secrets.token_hex(2)}"
            if not self.path(kind, fresh).exists():
                return fresh

    def path(self, kind: type[Any], name: str) -> Path:
        """Where the document with that id lies."""
        return self.folder / KINDS[kind].folder / f"{name}.json"

    def save(self, document: Audit | Load | Shipment | Study) -> Path:
        """Write the document, replacing an earlier state of it. Raises StoreError, also for a number that JSON cannot hold."""
        for where in _not_finite(msgspec.to_builtins(document), ""):
            raise StoreError(
                f"cannot write `{document.id}`: `{where}` is not a finite number",
                because="JSON has no NaN and no infinity, and a missing number must say why it is missing",
                hint="this is a bug of netdyno worth reporting; what was saved before is still there",
            )
        path = self.path(type(document), document.id)
        write_whole(path, msgspec.json.encode(document))
        return path

    def load(self, kind: type[Document], name: str = "last") -> Document:
        """The document of that id, the beginning or end of its id, its path, or `last`. Raises StoreError."""
        return _decoded(kind, self._found(kind, name))

    def list(self, kind: type[Any]) -> tuple[Line, ...]:
        """All documents of that kind, newest first; files that cannot be read are among them and say why."""
        found = [_line(path) for path in self._files(kind)]
        return tuple(
            sorted(found, key=lambda each: (each.made_at, each.path.stat().st_mtime_ns, each.id), reverse=True)
        )

    def _files(self, kind: type[Any]) -> tuple[Path, ...]:
        folder = self.folder / KINDS[kind].folder
        return tuple(path for path in sorted(folder.glob("*.json")) if not path.name.startswith("."))

    def _found(self, kind: type[Any], name: str) -> Path:
        if name == "last":
            return self._last(kind)
        if name.endswith(".json") or os.sep in name:
            return Path(name)
        near = tuple(path for path in self._files(kind) if path.stem.startswith(name) or path.stem.endswith(name))
        exact = tuple(path for path in near if path.stem == name)
        if len(exact or near) == 1:
            return (exact or near)[0]
        raise self._unknown(kind, name, near)

    def _last(self, kind: type[Any]) -> Path:
        for line in self.list(kind):
            if line.broken is None:
                return line.path
        told = KINDS[kind]
        raise StoreError(
            f"there is no last {told.noun}",
            because=f"`{self.folder / told.folder}` holds none that can be read",
            hint=f"make one: `{told.command}`",
        )

    def _unknown(self, kind: type[Any], name: str, near: tuple[Path, ...]) -> StoreError:
        told = KINDS[kind]
        if near:
            names = ", ".join(f"`{path.stem}`" for path in near[:5])
            return StoreError(
                f"`{name}` is not one {told.noun}", because=f"{len(near)} fit: {names}", hint="give the whole id"
            )
        there = ", ".join(f"`{line.id}`" for line in self.list(kind)[:3])
        return StoreError(
            f"there is no {told.noun} `{name}`",
            because=f"`{self.folder / told.folder}` holds none of that name",
            hint=f"the newest are {there}" if there else f"make one: `{told.command}`",
        )


def _decoded(kind: type[Document], path: Path) -> Document:
    data = read_whole(path)
    told = KINDS[kind]
    try:
        version = msgspec.json.decode(data, type=_Header).schema_version
        if version > told.version:
            raise StoreError(
                f"cannot read `{path}`",
                because=f"it has the schema version `{version}`, and this netdyno reads versions up to {told.version}",
                hint="upgrade netdyno, or open it where it was written",
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"cannot read `{path}`",
            because=f"it is no {told.noun} that netdyno wrote: {error}",
            hint=f"take the file as `{' '.join(told.command.split()[:2])}` left it",
        ) from error


def _line(path: Path) -> Line:
    try:
        told = msgspec.json.decode(read_whole(path), type=_Summary)
    except StoreError as error:
        return Line(path.stem, path, broken=error.because)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Line(path.stem, path, broken=str(error))
    return Line(told.id, path, told.made_at, told.target, told.finished)
