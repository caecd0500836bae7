"""Reads a journal bit by bit, also while it is written, and hands what is new to exporters."""

import threading
import time
from collections.abc import Callable, Iterable

import numpy as np

from netdyno.monitor.exporters._base import Exporter, News
from netdyno.store.journal import Run, Series, decimated

# Of one series at once, so that a long run is never in memory as a whole.
MOST_AT_ONCE = 10_000
# Beside a training, each series is thinned to so many points a step: ten a second are more than a chart shows.
EVERY_S, LIVE_POINTS = 5.0, 50
# Of one core, on average. Pauses grow where an exporter is dear.
SHARE = 0.002
PATIENCE_S = 20.0

Trouble = Callable[[str, BaseException], None]


class Reader:
    """The news of a run, each once."""

    def __init__(self, run: Run, *, thinned_to: int | None = None) -> None:
        self.run = run
        self.thinned_to = thinned_to
        self._points: dict[str, int] = {}
        self._byte = 0

    def news(self) -> News:
        """What there is since the last call; after a long time, a part of it."""
        events, self._byte = self.run.events(self._byte)
        fresh = {name: points for name in self.run.names() if len((points := self._fresh(name)).values)}
        return News(fresh, events)

    def _fresh(self, name: str) -> Series:
        began = self._points.get(name, 0)
        points = self.run.series(name, began)
        if self.thinned_to is None:
            points = Series(*(np.array(column[:MOST_AT_ONCE]) for column in points))
            self._points[name] = began + len(points.values)
            return points
        self._points[name] = began + len(points.values)
        return decimated(Series(*map(np.array, points)), points=self.thinned_to)


class Following:
    """Hands a run's news to exporters: at once with `all`, or beside a training with `start` and `stop`.

    With a `trouble` an exporter that fails is told there and left out, and the others go on; without, it raises. `spent_s`
    is what a thread of our own took; beside a training that is held to a share of one core.
    """

    def __init__(
        self,
        run: Run,
        exporters: Iterable[Exporter],
        *,
        thinned_to: int | None = None,
        trouble: Trouble | None = None,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.run = run
        self.exporters = list(exporters)
        self.spent_s = 0.0
        self.steps = 0
        self._reader = Reader(run, thinned_to=thinned_to)
        self._trouble = trouble
        self._cpu = cpu
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_s = 0.0

    @classmethod
    def beside(cls, run: Run, exporters: Iterable[Exporter], *, trouble: Trouble) -> "Following":
        """Beside a training: thinned, and never raising."""
        return cls(run, exporters, thinned_to=LIVE_POINTS, trouble=trouble)

    def begin(self) -> None:
        """Open everything: this is where libraries are imported."""
        self._each("begin", lambda exporter: exporter.begin(self.run))

    def step(self) -> bool:
        """Hand on what is new; whether there was anything."""
        began = self._cpu()
        with self._lock:
            news = self._reader.news()
            fresh = bool(news.series or news.events)
            if fresh:
                self._each("take", lambda exporter: exporter.take(news))
        self._last_s = self._cpu() - began
        self.spent_s += self._last_s
        self.steps += 1
        return fresh

    def all(self) -> None:
        """Everything that is there."""
        while self.step():
            pass

    def close(self) -> None:
        """The rest, and the end."""
        self.all()
        state = self.run.state()
        self._each("close", lambda exporter: exporter.close(state))

    def pause_s(self) -> float:
        """How long to wait until the next step, so that its price stays a small share of the time."""
        return max(EVERY_S, self._last_s / SHARE)

    def follow(self, stop: threading.Event) -> None:
        """Step now and then until told to stop."""
        while not stop.wait(self.pause_s()) and self.exporters:
            try:
                self.step()
            except Exception as error:
                if self._trouble is None:
                    raise
                self._trouble("export", error)

    def start(self) -> None:
        """Begin, here and now, and follow on a thread of its own."""
        self.begin()
        self._thread = threading.Thread(target=self.follow, args=(self._over,), name="netdyno-export", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """To be called when the journal is closed: hands on the rest. A thread that hangs is left behind."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=PATIENCE_S)
            if self._thread.is_alive():
                if self._trouble is not None:
                    self._trouble("export", TimeoutError("it hangs, and the last points were not handed on"))
                return
        self.close()

    def _each(self, doing: str, do: Callable[[Exporter], None]) -> None:
        for exporter in tuple(self.exporters):
            try:
                do(exporter)
            except Exception as error:
                if self._trouble is None:
                    raise
                self.exporters.remove(exporter)
                self._trouble(f"export {type(exporter).__name__} {doing}", error)
