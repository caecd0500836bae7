"""Lines about requests, for machines: one JSON object each, with the id that the client was told."""

import itertools
import os
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, BinaryIO

import msgspec


class LogLevel(Enum):
    """Which requests get a line."""

    ALL = "all"
    PROBLEMS = "problems"
    NONE = "none"


Wall = Callable[[], float]


class Logs:
    """Writes lines to standard error, or elsewhere. A reader that is gone ends the lines, not the service."""

    def __init__(self, level: LogLevel = LogLevel.PROBLEMS, *, stream: BinaryIO | None = None) -> None:
        self.level = level
        self.stream = stream if stream is not None else sys.stderr.buffer
        self._encode = msgspec.json.Encoder().encode

    def wants(self, status: int) -> bool:
        """Whether an answer with this status gets a line. Refusals under load are counted by the metrics, and told here too."""
        return self.level is LogLevel.ALL or (self.level is LogLevel.PROBLEMS and status >= 400)

    def say(self, event: str, **facts: Any) -> None:
        """One line."""
        if self.level is LogLevel.NONE:
            return
        from datetime import UTC, datetime

        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        try:
            self.stream.write(self._encode(line) + b"\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.level = LogLevel.NONE


def ids() -> Callable[[], str]:
    """Fresh request ids: unlike those of another process, and countable within this one."""
    mine, count = os.urandom(6).hex(), itertools.count(1)
    return lambda: f"{mine}-{next(count)}"


def sane_id(given: bytes) -> str | None:
    """A client's own id, where it is one that may stand in a header and a log.

    >>> sane_id(b"order-17"), sane_id(b"a b"), sane_id(b"x" * 200)
    ('order-17', None, None)
    """
    text = given.decode("latin-1")
    return text if 0 < len(text) <= 128 and text.isascii() and text.isprintable() and " " not in text else None
