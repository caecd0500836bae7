"""Writes files whole or not at all, and says in three lines why it could not."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from netdyno.errors import StoreError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
NO_FOLDER = (errno.ENOTDIR, errno.EEXIST)


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one move: a reader, or a crash, meets the old file or the new one.

    Raises StoreError; then the old file is untouched and nothing half-written is left behind.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            _write_all(handle, data)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _flush_folder(path.parent)


def sweep(path: Path) -> None:
    """Remove what a writer of `path` left behind when it was killed. For whoever holds its lock."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        with contextlib.suppress(OSError):
            part.unlink()


def read_whole(path: Path) -> bytes:
    """The bytes at `path`. Raises StoreError when they cannot be read."""
    with explained(path, verb="read"):
        return path.read_bytes()


def _write_all(handle: int, data: bytes) -> None:
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
        # A private file would surprise whoever shares the store's folder: give it the usual rights.
        os.fchmod(handle, 0o666 & ~_umask())
        # Without this, a crash of the machine may keep the new name and lose the new bytes.
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _flush_folder(folder: Path) -> None:
    # Some file systems cannot flush a folder; the file itself is safe by now.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def explained(path: Path, *, verb: str = "write") -> Iterator[None]:
    """Turns what the operating system refuses inside into a StoreError of three lines."""
    try:
        yield
    except OSError as error:
        because, hint = _reason(error, path)
        raise StoreError(f"cannot {verb} `{path}`", because=because, hint=hint) from error


def _reason(error: OSError, path: Path) -> tuple[str, str]:
    if error.errno in FULL:
        return (
            f"the disk or the quota is full ({error.strerror})",
            f"free some space, or choose another folder with `--store`; nothing in `{path.parent}` was changed",
        )
    if error.errno in CLOSED:
        return (
            f"the folder does not allow it ({error.strerror})",
            "change its rights, or choose another folder with `--store`",
        )
    if error.errno in NO_FOLDER:
        return (
            f"there is a file where the folder should be ({error.strerror})",
            "move that file away, or choose another folder with `--store`",
        )
    if error.errno == errno.ENOENT:
        return "there is no such file", "`netdyno runs` lists the runs that are there"
    return str(error.strerror or error), "see whether the disk is well, or choose another folder with `--store`"
