"""The room's own machinery: what a gauge is. One file declares one as `GAUGE`; its name is the file's."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from netdyno import plugins
from netdyno.aboard.vitals._base import Vital, Watch
from netdyno.monitor.subject import Subject

Point = Callable[[str, float], None]


class Event(NamedTuple):
    """Something for the journal that is no number: `told` is JSON."""

    kind: str
    told: dict[str, Any]


class Gauge(Vital):
    """A vital whose looks become points of series. Subclasses define the hooks of a vital that they need.

    `point(name, value)` puts one value into the journal, at the update that is under way; names are paths such as
    `gradient_norm/layers.0`. `event(kind, **told)` writes a line, for what is no number. Hooks without a prefix are called on
    updates that the budget has room for, those that begin with `every_` in updates that are listened to, and those that
    begin with `always_` in each update: they must take some microseconds. Nothing in a hook may wait for a device.
    `dear` gauges ride only when everything is asked for.
    """

    kind: ClassVar[str] = ""
    dear: ClassVar[bool] = False

    def __init__(self, watch: Watch, subject: Subject, point: Point, event: Callable[..., None]) -> None:
        super().__init__(watch)
        self.subject = subject
        self.point = point
        self.event = event

    def models(self) -> dict[str, Any]:
        """Those that were named, or else those that were seen in training."""
        return self.subject.models or {f"model{at or ''}": model for at, model in enumerate(self.watch.models)}

    def optimizers(self) -> tuple[Any, ...]:
        """Those that were named, or else those that stepped."""
        return self.subject.optimizers or tuple(self.watch.optimizers)

    def tick(self, seconds: float) -> None:
        """Once a second or so, on another thread: for what needs no tensor. Must not touch the training's state."""

    def summary(self) -> dict[str, Any] | None:
        """Gauges tell series, and no evidence."""
        return None


def gauges() -> Iterator[tuple[str, type[Gauge]]]:
    """Every gauge of the room and of outside packages, by name; one that cannot be imported is left out here, and
    `netdyno selftest` and the room's test say so."""
    for name, found in plugins.modules("monitor.gauges"):
        if isinstance(found, ModuleType):
            yield name, found.GAUGE
