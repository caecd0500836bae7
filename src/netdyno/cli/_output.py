"""Where answers go: data to stdout, talk to stderr."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from netdyno.errors import StoreError
from netdyno.records import codec
from netdyno.records.record import Record
from netdyno.store import Store
from netdyno.store.capsule import write_capsule


def put(text: str) -> None:
    """Data, to stdout."""
    print(text.rstrip("\n"))


def tell(text: str) -> None:
    """Talk, to stderr."""
    print(text, file=sys.stderr)


def width() -> int:
    """How many columns stdout has; a hundred where it is collected."""
    return shutil.get_terminal_size((100, 40)).columns if sys.stdout.isatty() else 100


def colour() -> bool:
    """True when stdout is a terminal whose owner has not asked for plain text (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def answer(record: Record, *, json: bool) -> None:
    """A record as the person or the program in front of us wants it."""
    if json:
        put(codec.encode(record, indent=2).decode())
    else:
        from netdyno.reports import text

        put(text.render(record, width=width(), colour=colour()))


def write_leavings(record: Record, store: Store) -> Iterator[str]:
    """Write the report and the capsule beside a record and say where; a failure is said, the record stands."""
    yield f"record:  {store.path(record.id)}"
    try:
        yield f"report:  {write_html(record, store)}"
        if record.patch is not None and record.patch.diff:
            path = store.write_artifact(record.id, "patch.diff", record.patch.diff.encode())
            yield f"patch:   {path}  (in the script's folder: git apply {path})"
        yield f"capsule: {write_capsule(record, store.artifacts / record.id / 'debug')}"
    except StoreError as error:
        yield str(error)


def write_html(record: Record, store: Store) -> Path:
    """The HTML report of a run in its own place in the store."""
    from netdyno.reports import html

    return store.write_artifact(record.id, "report.html", html.render(record).encode())
