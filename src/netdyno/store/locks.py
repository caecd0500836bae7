"""Keeps two labs from writing one record."""

import contextlib
import fcntl
import os
from pathlib import Path

from netdyno.errors import StoreError
from netdyno.store.disk import explained

# A lock of this kind belongs to the process and goes when it ends, however it ends; children never inherit
# it, so an orphaned loader worker cannot hold it. Closing any handle of the file would lose it: one per path.
_held: dict[Path, int] = {}


def hold(path: Path) -> bool:
    """Hold the lock at `path` until `release` or the end of the process; True when it was not held before.

    Raises StoreError when another process has it.
    """
    path = path.resolve()
    if path in _held:
        return False
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    except BlockingIOError as error:
        owner = os.pread(handle, 20, 0).decode() or "unknown"
        os.close(handle)
        raise StoreError(
            f"cannot write the record `{path.stem}`",
            because=f"another netdyno (process {owner}) is writing it",
            hint="wait until it is done, or start a run of your own without `--resume`",
        ) from error
    except PermissionError as error:
        os.close(handle)
        raise StoreError(
            f"cannot lock the record `{path.stem}`",
            because=str(error.strerror or error),
            hint="choose another folder with `--store`",
        ) from error
    except OSError:
        # The lock is ours; only the note about who holds it could not be written (a full disk).
        pass
    if not _same(handle, path):
        # Its owner finished and removed the file between our opening and our locking it.
        os.close(handle)
        return hold(path)
    _held[path] = handle
    return True


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def release(path: Path) -> None:
    """Let go of the lock at `path`, if this process holds it."""
    handle = _held.pop(path.resolve(), None)
    if handle is not None:
        # Unlinked while held: whoever waits for it opens a new file and cannot lock the old one by mistake.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(handle)
