"""Whether a thread that gathers requests for a model ever gathers more than one, and who stands still meanwhile."""

import linecache
import queue
import sys
import time
from collections import Counter
from threading import get_ident, main_thread
from typing import Any, ClassVar

from ..frames import Line, kind, user_line
from ._base import Call, Vital, Watch

# Looks at what the other threads do; the middle one is told.
LOOKS = 48
USER = 0


class Gathering:
    """What one thread took from queues since its last call of a model."""

    def __init__(self) -> None:
        self.items = self.empty = 0
        self.waited = 0.0


class Batcher(Vital):
    """Stands beside queues, in threads other than the main one."""

    kind: ClassVar[str] = "BatcherUse"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.threads: dict[int, Gathering] = {}
        self.calls = self.requests = self.timeouts = 0
        self.waited = 0.0
        self.seen: list[tuple[int, Line]] = []
        self.main = main_thread().ident
        watch.observer.replacements.replace("vital queue", queue.Queue, "get", self._taking)

    def _taking(self, original: Any) -> Any:
        threads, main, now = self.threads, self.main, time.perf_counter

        def get(own: Any, block: bool = True, timeout: Any = None) -> Any:
            thread = get_ident()
            if thread == main or len(threads) > 64:
                return original(own, block, timeout)
            gathering = threads.setdefault(thread, Gathering())
            began = now()
            try:
                item = original(own, block, timeout)
            except queue.Empty:
                gathering.empty += 1
                gathering.waited += now() - began
                raise
            gathering.items += 1
            return item

        return get

    def every_called(self, call: Call) -> None:
        """A batch is on its way through the model."""
        thread = get_ident()
        gathering = self.threads.get(thread) if thread != self.main else None
        if gathering is None or call.grad or not gathering.items:
            return
        self.calls += 1
        self.requests += gathering.items
        self.timeouts += bool(gathering.empty)
        self.waited += gathering.waited
        self.threads[thread] = Gathering()
        if len(self.seen) < LOOKS:
            self.seen.append(_standing(thread))

    def summary(self) -> dict[str, Any] | None:
        """All batches, and the line of the middle look."""
        if not self.calls:
            return None
        looks = sorted(self.seen, key=lambda look: look[0])
        blocked, line = looks[len(looks) // 2]
        return {
            "calls": self.calls,
            "requests": self.requests,
            "timeouts": self.timeouts,
            "waited_s": self.waited,
            "blocked": blocked,
            "where": {"file": line.file, "line": line.line} if line.file else None,
        }


def _standing(thread: int) -> tuple[int, Line]:
    """The line on which most other threads wait for a lock: in their own code, and in no function of Python's."""
    lines = Counter(
        user_line(frame)
        for other, frame in sys._current_frames().items()
        if other != thread and kind(frame.f_code) == USER
    )
    waits = [(count, line) for line, count in lines.items() if _locks(linecache.getline(line.file, line.line))]
    return max(waits, default=(0, Line("", 0, "")))


def _locks(text: str) -> bool:
    return text.lstrip().startswith(("with ", "async with ")) or ".acquire(" in text


VITAL = Batcher
