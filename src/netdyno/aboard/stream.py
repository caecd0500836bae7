"""What is told to the lab: one file per process, a JSON object a line."""

import json
import math
import os
import sys
import threading
import time
from typing import Any


class Stream:
    """Appends messages to `<folder>/<process>.jsonl`, each by one write, so that a kill cuts at most one line short."""

    def __init__(self, folder: str) -> None:
        self.process = os.getpid()
        self.path = os.path.join(folder, f"{self.process}.jsonl")
        self._lock = threading.Lock()

    def write(self, kind: str, **fields: Any) -> None:
        """One message. Raises nothing: a full disk is not the script's trouble."""
        try:
            line = in_json({"is": kind, **fields}).encode() + b"\n"
            with self._lock:
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                try:
                    os.write(handle, line)
                finally:
                    os.close(handle)
        except Exception:  # noqa: S110
            pass

    def hello(self, torch_version: str) -> None:
        """The heartbeat: PyTorch is there, and so are we."""
        self.write(
            "hello",
            pid=self.process,
            ppid=os.getppid(),
            rank=os.environ.get("RANK"),
            argv=list(sys.argv if hasattr(sys, "argv") else sys.orig_argv),
            python=".".join(str(part) for part in sys.version_info[:3]),
            torch=torch_version,
            executable=sys.executable,
            cwd=_cwd(),
            at=time.time(),
        )

    def trouble(self, where: str, error: BaseException) -> None:
        """A failure of our own: told, never fatal."""
        self.write("trouble", where=where, says=f"{type(error).__name__}: {error}"[:2000])


def in_json(message: Any) -> str:
    """JSON without NaN or infinity, which JSON does not have: such a number becomes null.

    >>> in_json({"last_loss": float("nan")})
    '{"last_loss": null}'
    """
    try:
        return json.dumps(message, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(message), allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None
