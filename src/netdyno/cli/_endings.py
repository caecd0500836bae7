"""How a command ends when it does not end well: three lines, a report to paste, or where the record is."""

import contextlib
import os
import platform
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.store import Store

DONE, NO, PUT_RIGHT, BUG, INTERRUPTED = 0, 1, 2, 3, 130
WORTH_KNOWING = ("netdyno", "torch", "numpy", "msgspec", "scipy", "rich", "psutil")


@contextlib.contextmanager
def naming_the_record(store: Store) -> Iterator[None]:
    """Whatever ends the inside early carries the path of the record so far."""
    try:
        yield
    except BaseException as error:
        if store.saved is not None:
            error.netdyno_record = store.saved  # type: ignore[attr-defined]
        raise


def status_of(error: BaseException, words: Sequence[str]) -> int:
    """Say on stderr what ended the command, and answer with the house's exit status."""
    record: Path | None = _attribute(error, "netdyno_record")
    if isinstance(error, NetdynoError):
        _talk(str(error))
        return PUT_RIGHT
    if isinstance(error, KeyboardInterrupt):
        _talk(f"interrupted; the record so far: {record}" if record else "interrupted; nothing was recorded yet")
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else NO
    _talk(f"This is a bug of ours, not yours; please paste this file into an issue: {_report(error, words, record)}")
    return BUG


@contextlib.contextmanager
def on_terminate() -> Iterator[None]:
    """Being told to end is like being interrupted: arms are shut and the record is named."""

    owner = os.getpid()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == owner:
            raise KeyboardInterrupt
        # A child that was forked from here, a loader worker for instance, ends as if we had changed nothing.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread: whoever runs us there decides about signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(error: BaseException, words: Sequence[str], record: Path | None) -> Path:
    lines = [
        f"command: netdyno {' '.join(words)}",
        f"python: {sys.version}",
        f"system: {platform.platform()}",
        *(f"{name}: {_version(name)}" for name in WORTH_KNOWING),
        f"last record: {record or 'none'}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    if record is not None:
        with contextlib.suppress(OSError):
            lines += ["record:", record.read_text()]
    with tempfile.NamedTemporaryFile("w", prefix="netdyno-bug-", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines))
    return Path(file.name)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _attribute(error: BaseException | None, name: str) -> Any:
    """The attribute of an error or of what caused it."""
    while error is not None:
        if hasattr(error, name):
            return getattr(error, name)
        error = error.__cause__ or error.__context__
    return None


def _talk(text: str) -> None:
    print(text, file=sys.stderr)
