"""Goes aboard the process one is in: the observer of scripts, with gauges beside the vitals, on the budget of a watch."""

from collections.abc import Callable, Iterator
from typing import Any

from netdyno.aboard import boot
from netdyno.aboard.config import Config
from netdyno.aboard.observe import Observer
from netdyno.aboard.patches import hide
from netdyno.aboard.vitals import _base as vitals
from netdyno.monitor.gauges import _base as gauges
from netdyno.monitor.subject import Subject

# What the doctor reads of a run that nobody asked to be examined: looks that are cheap and keep little.
LIGHT = ("gradients", "losscurve", "losses", "modes", "nonfinite", "rounds", "warned")
# Of the budget, parts for looks at numbers, for listening to calls, and for the bursts of watched updates in which both are
# done. The wires have a fifth; the rest is what counting costs.
LOOKS, LISTENS, BURSTS = 0.2, 0.1, 0.15
_aboard: list[Observer] = []  # one process, one ride
# With everything on, of the time, for looks, for listening, and for bursts: with what counting costs it stays below five per cent.
EVERYTHING, EVERYTHING_LISTENS, EVERYTHING_BURSTS = 0.02, 0.005, 0.01
# Who watches for hours has time to watch in bursts: a watched update costs some four hundred microseconds where the caches are
# cold, which is three per mille of so long an update.
QUICK_NS = 150_000_000


def aboard(
    subject: Subject,
    *,
    folder: str,
    point: gauges.Point,
    event: Callable[..., None],
    budget: float,
    everything: bool,
    wires: Callable[[vitals.Watch], gauges.Gauge] | None,
    hz: float,
) -> Observer | None:
    """The observer of this process, at work; None where somebody rides here already."""
    if boot.riding() is not None or _aboard:
        return None
    observer = Observer(Config(folder=folder, seed=None, hz=hz, vitals=True, share=LOOKS * budget, census=everything))
    observer.fresh = []
    observer.quick_ns = QUICK_NS
    observer.bursts_share = EVERYTHING_BURSTS if everything else BURSTS * budget
    observer.watch_of = lambda seen: vitals.Watch(
        seen,
        EVERYTHING if everything else LOOKS * budget,
        room=tuple(_room(subject, point, event, everything=everything, wires=wires)),
        listens=(EVERYTHING_LISTENS if everything else LISTENS * budget,) * 2,
        on_core=True,
    )
    hide("netdyno.aboard")
    observer.apply()
    _aboard.append(observer)
    return observer


def ashore(observer: Observer) -> None:
    """Leave: torch is as it was."""
    _aboard.remove(observer)
    observer.close()


def _room(
    subject: Subject, point: gauges.Point, event: Callable[..., None], *, everything: bool, wires: Any
) -> Iterator[tuple[str, Callable[[vitals.Watch], vitals.Vital]]]:
    if wires is not None:
        yield "tripwires", wires  # first: what breaks a wire is seen before anything is done with it
    for name, kind in gauges.gauges():
        if everything or not kind.dear:
            yield f"gauge {name}", lambda seen, kind=kind: kind(seen, subject, point, event)  # type: ignore[misc]
    for name, vital in vitals.kinds(lambda *_: None):
        if everything or name in LIGHT:
            yield name, vital
