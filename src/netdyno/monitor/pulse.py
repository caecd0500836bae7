"""Once a second: what the run has done since, into the journal; now and then the doctor's rules."""

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from netdyno.monitor import examine, ranks

if TYPE_CHECKING:
    from netdyno.monitor.run import Watch

PULSE_S = 1.0
# The doctor's first look, and of the thread's time what later ones may take: on a busy machine it is the training's.
FIRST_LOOK_S, LOOK_SHARE = 10.0, 0.001
MOST_PACES = 400
# Of the process's time on a core, for the gauges' once a second; and seconds that they have in any case.
TICKS, TICKS_S = 0.001, 0.05


class Pulse:
    """A thread beside the training. It reads what the observer counts, and touches no tensor."""

    def __init__(self, watch: "Watch", *, clock: Callable[[], float] = time.monotonic) -> None:
        self.watch = watch
        self.clock = clock
        self.over = threading.Event()
        self.spent_s = self.ticks_s = 0.0
        self._untold = 0.0  # seconds since gauges had their last turn
        self._began = self._beat = clock()
        self._updates = 0
        self._items = 0
        self._phases: dict[str, list[float]] = {}
        self._looked = 0.0
        self._cost_s = 0.0  # of the last examination
        self._ranks = ranks.beside(watch)
        self._thread = threading.Thread(target=self._work, name="netdyno-pulse", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """One more beat, and no more."""
        self.over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)
        self.beat()

    def _work(self) -> None:
        while not self.over.wait(PULSE_S):
            began = time.thread_time()
            try:
                self.beat()
                if self.due():
                    self.examine()
            except Exception as error:
                self.watch.trouble("pulse", error)
            self.spent_s += time.thread_time() - began

    def beat(self) -> None:
        """What happened since the last one."""
        watch, observer = self.watch, self.watch.observer
        self._losses(observer)
        now = self.clock()
        since, self._beat = now - self._beat, now
        updates = observer.updates
        made, self._updates = updates - self._updates, updates
        if made > 0 and since > 0:
            watch.point("updates_per_second", made / since)
            self._pace(observer)
            self._phases_since(observer)
        observer.guarded("ranks", self._ranks)
        self._tick(observer, since)

    def _tick(self, observer: Any, since: float) -> None:
        """Wires must not miss a run that stands still; gauges may, where a busy machine leaves little time to take a part of."""
        self._untold += since
        affords = self.ticks_s <= TICKS * time.process_time() + TICKS_S
        began = time.thread_time()
        for gauge in self.watch.gauges:
            if gauge is self.watch.wires:
                observer.guarded("gauge Tripwires", gauge.tick, since)
            elif affords:
                observer.guarded(f"gauge {type(gauge).__name__}", gauge.tick, self._untold)
        self._untold = 0.0 if affords else self._untold
        self.ticks_s += time.thread_time() - began

    def _losses(self, observer: Any) -> None:
        fresh: list[tuple[int, float]] = observer.fresh
        taken = fresh[:]
        del fresh[: len(taken)]
        now = self.watch.seconds
        for update, loss in taken:
            self.watch.point("loss", loss, update=update, seconds=now)

    def _pace(self, observer: Any) -> None:
        recent = list(observer.update_ns)[-MOST_PACES:]
        if recent:
            typical = median(recent) / 1e9
            self.watch.point("update_s", typical)
            items = observer.facts.items
            if items:
                self.watch.point("items_per_second", items / typical)

    def _phases_since(self, observer: Any) -> None:
        phases = {name: [part / 1e9 for part in parts] for name, parts in observer.account.phases().items()}
        since = {
            name: sum(parts) - sum(self._phases.get(name, (0.0,)))
            for name, parts in phases.items()
            if name != "netdyno"
        }
        self._phases = phases
        whole = sum(since.values())
        if whole > 0:
            for name, spent in since.items():
                if spent >= 0:
                    self.watch.point(f"phase/{name}", spent / whole)

    def due(self) -> bool:
        """Whether the doctor may look again: the first time after ten seconds, and then as its own price allows."""
        elapsed = self.clock() - self._began
        return elapsed - self._looked >= max(FIRST_LOOK_S, self._cost_s / LOOK_SHARE)

    def examine(self) -> None:
        """Let the rules read what was seen so far."""
        began = time.thread_time()
        watch = self.watch
        watch.tell_ride()
        outcomes = examine.examined(watch.journal.folder)
        for alert in examine.alerts(outcomes, update=watch.updates, seconds=watch.seconds, run=watch.info.name):
            watch.alert(alert)
        self._looked = self.clock() - self._began
        self._cost_s = time.thread_time() - began
