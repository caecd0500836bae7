"""One document: what the run is, its series, its events.

Needs:  nothing.
Opens:  any program; a value that is not finite is one of the texts "nan", "inf" and "-inf", which `float` reads.
"""

from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from netdyno.monitor.exporters._base import ROOM, Exporter, News
from netdyno.store.disk import write_whole
from netdyno.store.journal import Run


class Json(Exporter):
    """Writes the file `OUT`, whole, when the run is over."""

    @classmethod
    def usual(cls, store: Path, run: str) -> str:
        return str(store / ROOM / f"{run}.json")

    def begin(self, run: Run) -> None:
        self._info = run.info
        self._series: dict[str, dict[str, list[Any]]] = {}
        self._events: list[dict[str, Any]] = []

    def take(self, news: News) -> None:
        for name, points in news.series.items():
            told = self._series.setdefault(name, {"updates": [], "seconds": [], "values": []})
            told["updates"] += [int(update) for update in points.updates.tolist()]
            told["seconds"] += points.seconds.tolist()
            told["values"] += [value if isfinite(value) else str(value) for value in points.values.tolist()]
        self._events += news.events

    def close(self, state: str) -> None:
        told = {"run": self._info, "state": state, "series": self._series, "events": self._events}
        write_whole(Path(self.out), msgspec.json.encode(told))


EXPORTER = Json
