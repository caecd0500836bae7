"""Watched runs: which there are, and what one of them has shown."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE
from netdyno.cli._journals import journal_of, tags
from netdyno.cli._options import STORE, AsJson, StoreFolder, as_json
from netdyno.cli._output import colour, put, tell, width
from netdyno.errors import NetdynoError
from netdyno.records.journal import Alert
from netdyno.store.journal import ROOM, Run, runs


class Row(NamedTuple):
    """One run of the list. `loss` is the last one, None where there is none or it is not finite."""

    id: str
    name: str
    state: str
    updates: int
    loss: float | None
    alerts: tuple[str, ...]
    tags: dict[str, str]


class Extremes(NamedTuple):
    """A series in some numbers; None is a value that is not finite, or that no point has."""

    name: str
    points: int
    first: float | None
    last: float | None
    least: float | None
    most: float | None
    not_finite: int


class Told(NamedTuple):
    """One run: all there is to say of it."""

    run: Any
    state: str
    updates: int
    alerts: tuple[Alert, ...]
    series: tuple[Extremes, ...]
    costs: dict[str, Any]


def journals(
    *,
    run: Annotated[
        str | None, Argument("Show one watched run: its id, a part of it or its name, a folder, or `last`.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Only runs that carry this tag, such as stage=optim; repeat."),
    ] = None,
    examine: Annotated[bool, Option(help="Let the doctor's rules read the journal of the run.")] = False,
    everything: Annotated[bool, Option(help="Show every finding in full, not only the root cause.")] = False,
    store: StoreFolder = STORE,
    json: AsJson = False,
) -> int:
    """List the watched runs, newest first, or show one of them.

    What became of each, its updates, its last loss and its alerts. Of one run: alerts with the values behind them, its
    series, and what looking has cost; with `--examine` what the doctor says of it.
    """
    if run is not None:
        _one(journal_of(run, store), examine=examine, everything=everything, json=json)
        return DONE
    if examine:
        raise NetdynoError(
            "cannot examine all runs at once",
            because="no run was named",
            hint="`netdyno journals last --examine` examines the newest",
        )
    wanted = tags(tag)
    rows = list(listed(runs(store, tags=wanted)))
    if json:
        put(as_json([row._asdict() for row in rows]))
    elif rows:
        put("\n".join(_table(rows)))
    else:
        tell(f"`{store / ROOM}` holds no watched run{' with these tags' if wanted else ' yet'}")
    return DONE


def listed(found: Iterable[Run]) -> Iterator[Row]:
    """A row for each run that can be read; the others are said aloud."""
    for run in found:
        try:
            told = summary(run)
        except (NetdynoError, msgspec.MsgspecError, OSError) as error:
            tell(f"{run.folder.name} cannot be read: {error}")
            continue
        loss = run.series("loss").values
        yield Row(
            run.folder.name,
            told.run.name,
            told.state,
            told.updates,
            finite(loss[-1]) if len(loss) else None,
            tuple(alert.cause for alert in told.alerts),
            told.run.tags,
        )


def summary(run: Run, *, series: bool = False) -> Told:
    """What a journal holds, in short."""
    events, _ = run.events()
    ends = [int(event["update"]) for event in events if isinstance(event.get("update"), int)]
    loss = run.series("loss").updates
    costs: dict[str, Any] = next((event for event in reversed(events) if event["kind"] == "costs"), {})
    return Told(
        run=run.info,
        state=run.state(),
        updates=max([*ends, int(loss[-1]) if len(loss) else 0], default=0),
        alerts=tuple(_alerts(events)),
        series=tuple(extremes(run, name) for name in run.names()) if series else (),
        costs={name: told for name, told in costs.items() if name not in {"kind", "update"}},
    )


def extremes(run: Run, name: str) -> Extremes:
    """The numbers of one series."""
    values = np.asarray(run.series(name).values)
    good = values[np.isfinite(values)]
    return Extremes(
        name=name,
        points=len(values),
        first=finite(values[0]) if len(values) else None,
        last=finite(values[-1]) if len(values) else None,
        least=float(good.min()) if len(good) else None,
        most=float(good.max()) if len(good) else None,
        not_finite=len(values) - len(good),
    )


def finite(value: float) -> float | None:
    """The number, if JSON has a word for it."""
    return float(value) if np.isfinite(value) else None


def _alerts(events: Iterable[dict[str, Any]]) -> Iterator[Alert]:
    for event in events:
        if event["kind"] == "alert":
            with contextlib.suppress(msgspec.ValidationError, KeyError):
                yield msgspec.convert(event["alert"], Alert)


def _one(run: Run, *, examine: bool, everything: bool, json: bool) -> None:
    told = summary(run, series=True)
    outcomes = _outcomes(run) if examine else None
    if json:
        document = {**told._asdict(), "series": [each._asdict() for each in told.series]}
        if outcomes is not None:
            document["outcomes"] = outcomes
            document["findings"] = [
                {**msgspec.to_builtins(each.finding), "state": each.state}
                for each in outcomes
                if each.finding is not None
            ]
        put(as_json(document))
        return
    if outcomes is None:
        put("\n".join(_in_words(run.folder.name, told)))
        return
    from netdyno.reports import text

    put(text.render_findings(outcomes, everything=everything, width=width(), colour=colour()))


def _outcomes(run: Run) -> tuple[Any, ...]:
    from netdyno.monitor.examine import examined

    outcomes = examined(Path(run.folder))
    if not outcomes:
        raise NetdynoError(
            f"cannot examine `{run.folder.name}`",
            because="nothing that the rules read was written down in it",
            hint="the doctor reads runs that were watched with `netdyno.watch` for some updates",
        )
    return outcomes


def _table(rows: list[Row]) -> Iterator[str]:
    head = ("run", "name", "state", "updates", "loss", "tags", "alerts")
    cells = [
        (
            row.id,
            row.name,
            row.state,
            str(row.updates),
            "-" if row.loss is None else f"{row.loss:.4g}",
            " ".join(f"{name}={value}" for name, value in row.tags.items()) or "-",
            ", ".join(row.alerts) or "-",
        )
        for row in rows
    ]
    yield from _aligned([head, *cells])


def _in_words(name: str, told: Told) -> Iterator[str]:
    from netdyno.monitor.terminal import in_words

    yield f"{_line(told.run.name)}  {name}  {told.state} after {told.updates} updates"
    about = {**told.run.tags, **told.run.settings}
    if about:
        yield "  " + ", ".join(f"{_line(key)}={_line(str(value))}" for key, value in about.items())
    yield ""
    for alert in told.alerts:
        yield from (f"  {_line(line)}" for line in in_words(alert).splitlines())
        yield from (f"      {_line(key)}: {value:.4g}" for key, value in alert.because.items())
    if not told.alerts:
        yield "  no alert"
    if told.series:
        yield ""
        yield from (f"  {line}" for line in _aligned([Extremes._fields, *map(_cells, told.series)]))
    looks = told.costs.get("looks_s") or {}
    whole = told.costs.get("seconds") or 0.0
    if whole:
        spent = {**looks, "listening": told.costs.get("listening_s", 0.0), "pulse": told.costs.get("pulse_s", 0.0)}
        yield ""
        yield f"  looking took {sum(spent.values()) / whole:.2%} of {whole:.4g} s"
        for look, seconds in sorted(spent.items(), key=lambda item: -item[1]):
            yield f"      {_line(look)}: {seconds:.3g} s"


def _cells(series: Extremes) -> tuple[str, ...]:
    numbers = ("-" if value is None else f"{value:.4g}" for value in series[2:6])
    return (series.name, str(series.points), *numbers, str(series.not_finite))


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    lines = [tuple(map(_line, row)) for row in rows]
    widths = [max(len(row[at]) for row in lines) for at in range(len(lines[0]))]
    for row in lines:
        yield "  ".join(f"{cell:<{wide}}" for cell, wide in zip(row, widths, strict=True)).rstrip()


def _line(text: str) -> str:
    """Names and words of a user cannot steer the terminal."""
    from netdyno.reports._units import one_line

    return one_line(text)
