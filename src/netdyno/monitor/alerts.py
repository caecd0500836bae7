"""Tells people: each cause once, to everybody who wants to hear, on a thread of its own."""

import queue
import threading
from collections.abc import Callable, Iterable

from netdyno.records.journal import Alert

Sink = Callable[[Alert], None]
# A sink that hangs (a mail server, a hook) must not pile up alerts for ever, nor hold the end of a script for long.
MOST_WAITING, PATIENCE_S = 100, 5.0


class Alerts:
    """Hands each alert to every sink; one for a cause that was told before is dropped.

    `troubles` says which sink failed and how: a sink's failure is nobody else's.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks = tuple(sinks)
        self.told: dict[str, Alert] = {}
        self.troubles: list[str] = []
        self._lock = threading.Lock()
        self._waiting: queue.Queue[Alert | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def tell(self, alert: Alert) -> bool:
        """Whether it was news. Returns at once."""
        with self._lock:
            if alert.cause in self.told:
                return False
            self.told[alert.cause] = alert
            for cause in alert.folds:  # its symptoms need no alert of their own any more
                self.told.setdefault(cause, alert)
            if self.sinks and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="netdyno-alerts", daemon=True)
                self._thread.start()
        if self.sinks:
            try:
                self._waiting.put_nowait(alert)
            except queue.Full:
                self.troubles.append(f"`{alert.cause}` was not told: {MOST_WAITING} alerts wait already")
        return True

    def close(self) -> None:
        """Wait a little for what is still on its way."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout=PATIENCE_S)

    def _work(self) -> None:
        while (alert := self._waiting.get()) is not None:
            for sink in self.sinks:
                try:
                    sink(alert)
                except Exception as error:
                    name = getattr(sink, "__name__", type(sink).__name__)
                    self.troubles.append(f"{name}: {type(error).__name__}: {error}")
