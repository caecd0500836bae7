"""The room's own machinery: what an exporter is. One file declares one as `EXPORTER`; its id is the file's name."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import msgspec

from netdyno import plugins
from netdyno.errors import NetdynoError
from netdyno.records.journal import Alert
from netdyno.store.journal import Run, Series

ROOM = "exports"  # the folder of a store that they write to unless they are told another place


class News(NamedTuple):
    """What a journal says more than it did: points by the name of their series, and events."""

    series: dict[str, Series]
    events: list[dict[str, Any]]

    def rows(self) -> Iterator[tuple[int, float, dict[str, float]]]:
        """Update, seconds since the beginning and the values of that update; in the order of updates."""
        found: dict[int, tuple[float, dict[str, float]]] = {}
        for name, points in self.series.items():
            for update, seconds, value in zip(*(column.tolist() for column in points), strict=True):
                at, values = found.setdefault(int(update), (seconds, {}))
                values[name] = value
                if seconds > at:
                    found[int(update)] = (seconds, values)
        for update in sorted(found):
            yield update, *found[update]

    def alerts(self) -> Iterator[Alert]:
        """Those that can be read."""
        for event in self.events:
            if event["kind"] == "alert" and "alert" in event:
                try:
                    yield msgspec.convert(event["alert"], Alert)
                except msgspec.ValidationError:
                    continue

    def histograms(self) -> Iterator["Histogram"]:
        """Those that have as many counts as there are stretches between their edges."""
        for event in self.events:
            edges, counts = list(event.get("edges") or ()), list(event.get("counts") or ())
            if event["kind"] == "histogram" and counts and len(edges) == len(counts) + 1 and None not in edges:
                update = int(event.get("at", event["update"]))
                yield Histogram(str(event.get("of", "histogram")), update, float(event["seconds"]), edges, counts)


class Histogram(NamedTuple):
    """How often values lay between each edge and the next."""

    of: str
    update: int
    seconds: float
    edges: list[float]
    counts: list[float]


class Exporter:
    """Hands a run on through another library. `begin` once, `take` as often as there is news, `close` once.

    Subclasses say in `needs` which module comes with which package, and where they write unless they are told (`usual`).
    Who `serves` is of use only while it goes on. They may raise what they like: whoever calls them says so.
    """

    needs: ClassVar[dict[str, str]] = {}
    serves: ClassVar[bool] = False

    def __init__(self, out: str | Path) -> None:
        self.out = str(out)

    @classmethod
    def usual(cls, store: Path, run: str) -> str:
        """Where the run `run` of a store goes unless somebody says another place."""
        raise NotImplementedError

    def begin(self, run: Run) -> None:
        """A run; what is dear, such as an import, is done here, before a training begins."""
        raise NotImplementedError

    def take(self, news: News) -> None:
        """What is new."""
        raise NotImplementedError

    def close(self, state: str) -> None:
        """No more will come. `state` is the run's: ended, failed, stopped, interrupted, silent, or still running."""

    @property
    def where(self) -> str:
        """What a person opens."""
        return self.out


def exporters() -> dict[str, type[Exporter]]:
    """Every exporter of the room and of outside packages, by name; one that cannot be imported is left out here, and the
    room's test says so."""
    return {
        name: found.EXPORTER for name, found in plugins.modules("monitor.exporters") if isinstance(found, ModuleType)
    }


def exporter(name: str, *, store: Path, run: str, out: str | Path | None = None) -> Exporter:
    """The exporter of that name. Raises NetdynoError when there is none, or its package is not installed."""
    there = exporters()
    if name not in there:
        raise NetdynoError(
            f"cannot export to `{name}`",
            because="there is no such exporter",
            hint=f"take one of {', '.join(f'`{each}`' for each in sorted(there))}",
        )
    kind = there[name]
    for module, package in kind.needs.items():
        if find_spec(module) is None:
            raise NetdynoError(
                f"cannot export to `{name}`",
                because=f"the package `{package}` is not installed",
                hint=f"`pip install {package}`, or export to `csv` or `json`, which need nothing",
            )
    return kind(out if out is not None else kind.usual(store, run))


def chosen(asked: Iterable[str | Exporter], *, store: Path, run: str) -> tuple[Exporter, ...]:
    """Exporters from their names, which write to their usual places, or as they are."""
    return tuple(each if isinstance(each, Exporter) else exporter(each, store=store, run=run) for each in asked)
