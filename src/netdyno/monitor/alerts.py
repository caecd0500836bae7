"""Tells people: each cause once, to everybody who wants to hear, on threads of their own."""

import queue
import threading
import time
from collections.abc import Callable, Iterable

from netdyno.records.journal import Alert

Sink = Callable[[Alert], None]
# A sink that hangs (a mail server, a hook) must not pile up alerts for ever, nor hold the end of a script for long.
MOST_WAITING, PATIENCE_S = 100, 5.0


class Alerts:
    """Hands each alert to every sink; one for a cause that was told before is dropped.

    `troubles` says which sink failed and how: a sink's failure is nobody else's, and who hangs keeps nobody else waiting.
    """

    def __init__(self, sinks: Iterable[Sink], *, patience_s: float = PATIENCE_S) -> None:
        self.sinks = tuple(sinks)
        self.told: dict[str, Alert] = {}
        self.troubles: list[str] = []
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._lines = tuple(_Line(sink, self.troubles) for sink in self.sinks)

    def tell(self, alert: Alert) -> bool:
        """Whether it was news. Returns at once."""
        with self._lock:
            if alert.cause in self.told:
                return False
            self.told[alert.cause] = alert
            for cause in alert.folds:  # its symptoms need no alert of their own any more
                self.told.setdefault(cause, alert)
            for line in self._lines:
                line.put(alert)
        return True

    def close(self) -> None:
        """Wait a little for what is still on its way."""
        with self._lock:
            for line in self._lines:
                line.end()
        until = time.monotonic() + self._patience_s
        for line in self._lines:
            line.wait(until)


class _Line:
    """The alerts on their way to one sink, in their order."""

    def __init__(self, sink: Sink, troubles: list[str]) -> None:
        self.sink = sink
        self.troubles = troubles
        self._waiting: queue.SimpleQueue[Alert | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._cause = ""  # of the alert under way

    @property
    def name(self) -> str:
        return str(getattr(self.sink, "__name__", type(self.sink).__name__))

    def put(self, alert: Alert) -> None:
        if self._ended:
            self.troubles.append(f"{self.name}: `{alert.cause}` was not told: the watch was over")
        elif self._waiting.qsize() >= MOST_WAITING:
            self.troubles.append(f"{self.name}: `{alert.cause}` was not told: {MOST_WAITING} alerts wait already")
        else:
            self._waiting.put(alert)
            if self._thread is None:  # most runs have nothing to tell, and need no thread
                self._thread = threading.Thread(target=self._work, name=f"netdyno-alerts {self.name}", daemon=True)
                self._thread.start()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._waiting.put(None)

    def wait(self, until: float) -> None:
        if self._thread is None:
            return
        self._thread.join(timeout=max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            behind = f" and {more} more" if (more := self._waiting.qsize() - 1) > 0 else ""
            self.troubles.append(f"{self.name}: `{self._cause}`{behind} was still on its way when the watch ended")

    def _work(self) -> None:
        while (alert := self._waiting.get()) is not None:
            self._cause = alert.cause
            try:
                self.sink(alert)
            except BaseException as error:  # also a sink that exits: it has only its own thread to end
                self.troubles.append(f"{self.name}: {type(error).__name__}: {error}")
