"""The watch itself: goes aboard, writes the journal, tells alerts; nothing of it raises into the training."""

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from netdyno import __version__
from netdyno.aboard.stream import Stream
from netdyno.errors import NetdynoError
from netdyno.monitor import examine, ranks, ride
from netdyno.monitor.alerts import Alerts, Sink
from netdyno.monitor.exporters._base import Exporter, chosen
from netdyno.monitor.exporters._following import Following
from netdyno.monitor.gauges._base import Gauge
from netdyno.monitor.pulse import Pulse
from netdyno.monitor.subject import Subject
from netdyno.monitor.tagging import refuse_untagged
from netdyno.records.journal import STAGES, Alert, RunInfo
from netdyno.store.journal import Journal, Run, new_info

OnTrip = Literal["warn", "pause", "stop"]
STORE = ".netdyno"


def watch(
    model: Any = None,
    optimizer: Any = None,
    *,
    run: str = "run",
    stage: str | None = None,
    tags: Mapping[str, str] | None = None,
    require_tag: bool = False,
    settings: Mapping[str, Any] | None = None,
    scaler: Any = None,
    scheduler: Any = None,
    loader: Any = None,
    budget: float = 0.01,
    everything: bool = False,
    on_trip: OnTrip = "warn",
    pause_s: float = 3600.0,
    alerts: Iterable[Sink] = (),
    export: Iterable[str | Exporter] = (),
    quiet: bool = False,
    store: str | Path = STORE,
) -> "Watch":
    """Watch a training run: `with netdyno.watch(model, optimizer, run="pcb-defects") as watch: ...`.

    Nothing needs to be named: models are found when they are called, optimizers when they step; who names them gets
    their names in the series, and snapshots to continue from. `budget` is the share of the time that looking may take, which
    each look's own cost is held to; `everything` looks at all there is, for some per cent. `stage` and `tags` are what runs
    are filtered by, and with `require_tag` a run without either is refused. `on_trip` says what happens when a tripwire breaks; a pause ends by itself after `pause_s` seconds. `alerts` are called with each `Alert`; the terminal
    hears of it unless `quiet`. `export` hands the run on while it goes on: names such as `"tensorboard"`, or exporters.

    Raises NetdynoError for a stage that does not exist, a tag that is required and missing, a budget that is no share, an exporter whose package is missing, or
    a store that cannot be written.
    """
    if stage is not None and stage not in STAGES:
        raise NetdynoError(
            f"cannot tag a run with the stage `{stage}`",
            because=f"stages are {', '.join(f'`{each}`' for each in STAGES)}",
            hint="leave `stage` out, or use `tags={...}` for words of your own",
        )
    if require_tag:
        refuse_untagged(stage, tags)
    if not 0 < budget <= 0.5:
        raise NetdynoError(
            f"cannot watch with a budget of `{budget}`",
            because="a budget is the share of the time that looking may take",
            hint="use a number between 0 and 0.5, such as `0.01`",
        )
    here = ranks.place(run)
    info = new_info(
        run,
        tags={**({"group": here.group} if here.group else {}), **(tags or {}), **({"stage": stage} if stage else {})},
        settings=_plain(settings or {}),
        script=sys.argv[0] if sys.argv else "",
        process=os.getpid(),
        rank=here.rank,
        world=here.world,
        machine=platform.node(),
        torch=_torch_version(),
        python=platform.python_version(),
        made_by=f"netdyno {__version__}",
        budget=budget,
    )
    subject = Subject.of(model, optimizer, scaler=scaler, scheduler=scheduler, loader=loader)
    return Watch(
        subject,
        info,
        Path(store),
        everything=everything,
        on_trip=on_trip,
        pause_s=pause_s,
        sinks=alerts,
        export=chosen(export, store=Path(store), run=info.id),
        quiet=quiet,
    )


class Watch:
    """One watched run. Use it as a context, or call `start` and `stop`.

    `point` adds a value of your own to the journal, `evaluated` the result of an evaluation; `updates` counts optimizer
    steps. Where somebody watches this process already, the inner watch only writes what it is told.
    """

    def __init__(
        self,
        subject: Subject,
        info: RunInfo,
        store: Path,
        *,
        everything: bool = False,
        on_trip: OnTrip = "warn",
        pause_s: float = 3600.0,
        sinks: Iterable[Sink] = (),
        export: Iterable[Exporter] = (),
        quiet: bool = False,
    ) -> None:
        self.subject = subject
        self.info = info
        self.store = store
        self.everything = everything
        self.on_trip = on_trip
        self.pause_s = pause_s
        self.observer: Any = None
        self.gauges: tuple[Gauge, ...] = ()
        self.journal: Journal
        self.wires: Any = None
        self._sinks = (*(() if quiet else (_terminal(),)), *sinks)
        self._stream: Stream | None = None
        self._pulse: Pulse | None = None
        self._export = tuple(export)
        self._following: Following | None = None
        self.alerts = Alerts(ranks.voiced(self._sinks, info, store))
        self.running = False

    # beginning and end

    def start(self) -> Self:
        """Begin to watch. Raises StoreError when the journal cannot be written."""
        if self.running:
            return self
        self.journal = Journal.create(self.store, self.info)
        self.running = True
        self._following = Following.beside(Run(self.journal.folder), self._export, trouble=self.trouble)
        self._following.start()
        folder = self.journal.folder / examine.RIDE
        folder.mkdir(exist_ok=True)
        self._stream = Stream(str(folder))
        self._stream.hello(self.info.torch)
        self.observer = ride.aboard(
            self.subject, folder=str(folder), point=self.point, event=self.event, budget=self.info.budget,
            everything=self.everything, wires=self._make_wires, hz=0.0,
        )  # fmt: skip
        if self.observer is not None:
            self.gauges = tuple(each for each in self.observer.vitals.vitals if isinstance(each, Gauge))
            self._pulse = Pulse(self)
            self._pulse.start()
        return self

    def _make_wires(self, seen: Any) -> Gauge:
        from netdyno.monitor.tripwires import Tripwires

        self.wires = Tripwires(seen, self.subject, self.point, self.event, watch=self)
        self.wires.pause.patience_s = self.pause_s
        return self.wires

    def stop(self, reason: str = "ended", says: str = "") -> None:
        """The run is over: everything is written down, and torch is as it was."""
        if not self.running:
            return
        observer = self.observer
        if observer is not None:
            observer.wake()
            observer.account.stop()
            observer.guarded("vitals", observer.vitals.over)
            observer.guarded("close", ride.ashore, observer)
        if self._pulse is not None and observer is not None:
            observer.guarded("pulse", self._pulse.stop)
            if self._stream is not None:  # rules weigh what little time there is to save in a script that is over
                self._stream.write("stopped", reason=reason, updates=self.updates, says=says)
            observer.guarded("examination", self._pulse.examine)
        self.alerts.close()
        for trouble in self.alerts.troubles:
            self.event("trouble", where="alerts", says=trouble)
        self.event("costs", **self.costs())
        self.running = False
        self.journal.close(reason, self.updates, says=says, updates=self.updates)
        if self._following is not None:
            self._following.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        elif issubclass(kind, KeyboardInterrupt):
            self.stop("interrupted")
        elif issubclass(kind, SystemExit):
            self.stop("stopped", says=str(error))
        else:
            self.stop("failed", says=f"{kind.__name__}: {error}"[:2000])

    # what is told

    @property
    def updates(self) -> int:
        """Optimizer steps so far (or what else is counted in a loop without an optimizer)."""
        return 0 if self.observer is None else int(self.observer.updates)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return self.journal.seconds

    def point(self, name: str, value: float, *, update: int | None = None, seconds: float | None = None) -> None:
        """One value of a series, at the update that is under way."""
        if self.running:
            self.journal.point(name, self.updates if update is None else update, float(value), seconds)

    def evaluated(self, *, update: int | None = None, **values: float) -> None:
        """The results of an evaluation: `watch.evaluated(loss=0.31, accuracy=0.92)`. A loss that diverges trips a wire."""
        at = self.updates if update is None else update
        for name, value in values.items():
            self.point(f"evaluation/{name}", value, update=at)
        if self.running:
            self.event("evaluation", **values)
        if self.wires is not None:
            self.wires.evaluated(values)

    def event(self, kind: str, **told: Any) -> None:
        """One line of the journal."""
        if self.running:
            self.journal.event(kind, self.updates, **told)

    def alert(self, alert: Alert) -> bool:
        """Tell people, unless they know; whether it was news."""
        if not self.alerts.tell(alert):
            return False
        self.event("alert", alert=msgspec.to_builtins(alert))
        self.journal.flush()
        return True

    def trouble(self, where: str, error: BaseException) -> None:
        """A failure of our own: noted, never raised."""
        if self.observer is not None:
            self.observer.trouble(where, error)
        self.event("trouble", where=where, says=f"{type(error).__name__}: {error}"[:500])

    def tell_ride(self) -> None:
        """What the doctor reads, as it stands now."""
        if self._stream is not None and self.observer is not None:
            self._stream.write("tick", **self.observer.summary())

    def costs(self) -> dict[str, Any]:
        """What watching took, in seconds: each look, listening to calls, the thread beside the training."""
        seen = self.observer.vitals if self.observer is not None else None
        return {
            "looks_s": {} if seen is None else {name: spent / 1e9 for name, spent in seen.costs.items() if spent},
            "listening_s": 0.0 if seen is None else seen.heard_ns / 1e9,
            "wires_s": 0.0 if seen is None else seen.wired_ns / 1e9,
            "pulse_s": 0.0 if self._pulse is None else self._pulse.spent_s,
            "seconds": self.seconds,
        }

    def _repr_html_(self) -> str:
        from netdyno.monitor.notebook import html

        return html(self)


def _terminal() -> Sink:
    from netdyno.monitor.terminal import said

    return said


def _torch_version() -> str:
    import torch

    return str(torch.__version__)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON has a word for; everything else as its text."""
    return {
        str(name): value if isinstance(value, str | float | int | bool | None) else str(value)
        for name, value in settings.items()
    }
