"""Which line of the user's own code an error came through: neither of this package, nor of Python's, nor of an installed one."""

import os
import re
import sysconfig
from pathlib import Path
from types import TracebackType

HERE = str(Path(__file__).resolve().parents[1])
NOT_THE_USERS = (HERE, *(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib")), "<frozen")


def place_of(error: BaseException) -> str:
    """The last line of the user's own code on the way to the error, or nothing."""
    cause = error.__cause__
    # Deepest first: what a loader worker wrote, what the error was raised from, the error itself.
    for places in (
        re.findall(r'File "([^"]+)", line (\d+)', str(error)),
        _frames(cause.__traceback__) if cause is not None else [],
        _frames(error.__traceback__),
    ):
        theirs = [f"{file}:{line}" for file, line in places if is_users(file)]
        if theirs:
            return f" ({theirs[-1]})"
    return ""


def _frames(trace: TracebackType | None) -> list[tuple[str, str]]:
    found = []
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, str(trace.tb_lineno)))
        trace = trace.tb_next
    return found


def is_users(file: str) -> bool:
    """True for a file that the user may have written."""
    return not os.path.abspath(file).startswith(NOT_THE_USERS) and not file.startswith("<")
