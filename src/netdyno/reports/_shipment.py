"""A deployment made readable: first what is shown, as plain tuples, then the terminal and the JSON."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from netdyno.records.deployment import Candidate, GateCheck, Percentile, Shipment
from netdyno.records.measured import Interval
from netdyno.reports import _info as info
from netdyno.reports import text
from netdyno.reports._units import duration, number, size
from netdyno.verdicts.shipping import latency_of, worst_rung

NARROW = 72
UNKNOWN = 900.0  # a factor whose interval reaches here was seen in a few pairs only
SHOWN = 8  # ways that are listed without `--everything`


class WayInfo(NamedTuple):
    """One way to run the model, in one row."""

    name: str
    precision: str
    mark: str  # "+" the winner, "*" on the front, "-" breaks something, "~" cannot tell, "" measured and not needed
    speedup: str
    latency: str
    accuracy: str
    parity: str
    memory: str
    how: str
    says: tuple[str, ...]


class ShipmentInfo(NamedTuple):
    """All that a report of a deployment shows."""

    headline: str
    state: str
    under: str
    objective: tuple[info.Fact, ...]
    gate: tuple[tuple[str, str, str], ...]  # mark, name, what it says
    stopped: tuple[GateCheck, ...]
    winner: tuple[info.Fact, ...]
    ways: tuple[WayInfo, ...]
    ladder: tuple[tuple[str, str, str, str], ...]
    resolutions: tuple[info.Fact, ...]
    skipped: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, str], ...]
    says: tuple[str, ...]
    measured: tuple[info.Fact, ...]


def shipment_info(shipment: Shipment) -> ShipmentInfo:
    """What is to be shown of a deployment."""
    winner = shipment.candidates[shipment.winner] if shipment.winner is not None else None
    ran = [one for one in shipment.candidates if one.speedup is not None and not one.failed]
    ran.sort(key=lambda one: (one is not winner, one.stage != "measured", -_middle(one)))
    stopped = tuple(check for check in shipment.gate if check.ok is False and not check.warning)
    return ShipmentInfo(
        headline=_headline(shipment, winner, stopped),
        state="well" if winner is not None else "sick",
        under=_under(shipment),
        objective=tuple(info.Fact(met.constraint.text or met.constraint.quantity, met.says) for met in winner.met)
        if winner is not None
        else (),
        gate=tuple((_mark(check), check.name, check.says) for check in (*shipment.gate, *shipment.coverage)),
        stopped=stopped,
        winner=tuple(_winner(shipment, winner)) if winner is not None else (),
        ways=tuple(_way(shipment, one, one is winner) for one in ran),
        ladder=tuple(
            (
                step.name,
                duration(step.seconds.middle),
                times(step.ratio) if step.ratio is not None else "",
                f"{100 * step.accuracy:.2f} %" if step.accuracy is not None else "",
            )
            for step in shipment.ladder
        ),
        resolutions=tuple(
            info.Fact(f"{one.side} pixels, {one.data:.3g} of the data", one.says) for one in shipment.resolutions
        ),
        skipped=tuple((one.label, one.skipped) for one in shipment.candidates if one.skipped),
        failed=tuple((one.label, one.failed) for one in shipment.candidates if one.failed),
        says=(*shipment.says, *shipment.failures),
        measured=tuple(_measured(shipment)),
    )


def times(interval: Interval) -> str:
    """A factor with its interval.

    >>> times(Interval(middle=11.52, low=10.9, high=12.14))
    '11.5x (10.9 to 12.1)'
    """
    if interval.high > UNKNOWN:
        return f"about {number(interval.middle)}x"
    return f"{number(interval.middle)}x ({number(interval.low)} to {number(interval.high)})"


def against_eager(speedup: Interval) -> str:
    """A speed-up in words that stay true where it is none.

    >>> against_eager(Interval(middle=0.48, low=0.4, high=0.62))
    '2.08x (1.61 to 2.50) slower than'
    >>> against_eager(Interval(middle=1.01, low=0.97, high=1.05))
    'not distinguishable in speed (0.970 to 1.05) from'
    """
    if speedup.low > 1 or speedup.high > UNKNOWN:
        return f"{times(speedup)} faster than"
    if speedup.high < 1:
        turned = Interval(middle=1 / speedup.middle, low=1 / speedup.high, high=1 / max(1 / UNKNOWN, speedup.low))
        return f"{times(turned)} slower than"
    return f"not distinguishable in speed ({number(speedup.low)} to {number(speedup.high)}) from"


def _headline(shipment: Shipment, winner: Candidate | None, stopped: tuple[GateCheck, ...]) -> str:
    if stopped:
        return f"stopped at the gate: {', '.join(check.name for check in stopped)}"
    if winner is not None and winner.speedup is not None:
        return f"{winner.label}: {against_eager(winner.speedup)} the module in eager PyTorch"
    if not shipment.finished:
        return "the deployment is not finished"
    return "no way to run it surely keeps the objective"


def _under(shipment: Shipment) -> str:
    tried = sum(1 for one in shipment.candidates if one.speedup is not None or one.failed)
    return (
        f"{shipment.target}, {tried} ways tried in {duration(shipment.wall_s)}, "
        f"{shipment.plan.rows} row{'s' * (shipment.plan.rows > 1)} at a time; id {shipment.id}"
    )


def _mark(check: GateCheck) -> str:
    if check.ok is None:
        return "?"
    return "+" if check.ok else "~" if check.warning else "-"


def _winner(shipment: Shipment, winner: Candidate) -> Iterable[info.Fact]:
    running = winner.running
    spinning = "" if running.spinning else ", waiting threads sleep"
    yield info.Fact("runs as", f"{winner.label}, {running.threads} thread{'s' * (running.threads > 1)}{spinning}")
    single = latency_of(winner, shipment.plan.rows)
    if single is not None:
        yield info.Fact("latency", "; ".join(map(percentile, single.percentiles)))
        yield info.Fact("CPU", f"{duration(single.cpu_s)} of all threads for one answer")
    if winner.offline_rate is not None:
        yield info.Fact("offline", f"{number(winner.offline_rate)} rows/s at the best batch size")
    if winner.accuracy is not None:
        yield info.Fact("accuracy", winner.accuracy.says)
    rung = worst_rung(winner.parity)
    if rung is not None:
        yield info.Fact("parity", f"{len(winner.parity)} rungs hold; the least: {rung.name}, {rung.says}")
    if winner.verdict is not None:
        yield info.Fact("verdict", f"{winner.verdict.decision}: {'; '.join(winner.verdict.reasons)}")
    if winner.load_s is not None and winner.first_s is not None:
        yield info.Fact("cold", f"loaded in {duration(winner.load_s)}, first answer in {duration(winner.first_s)}")
    if winner.memory_bytes is not None and winner.built is not None:
        yield info.Fact("size", f"{size(winner.memory_bytes)} of memory, {size(winner.built.bytes)} on disk")
    for says in winner.says:
        yield info.Fact("also", says)
    if shipment.roofline:
        yield info.Fact("roofline", shipment.roofline)
    spent = f"at most {1e3 * winner.energy_j:.3g} mJ an answer, " if winner.energy_j is not None else ""
    yield info.Fact("energy", f"{spent}{shipment.energy}")
    if shipment.package:
        yield info.Fact("package", f"{shipment.package}; netdyno serve {shipment.package}")


def percentile(one: Percentile) -> str:
    """`P99 3.1 ms (2.8 to 3.6)`, and how sure that is."""
    name, value = f"P{100 * one.share:g}", duration(one.seconds)
    if one.interval is None:
        return f"{name} {value} (imprecise: {one.samples} calls)"
    ends = f"{duration(one.interval.low)} to {duration(one.interval.high)}"
    return f"{name} {value} ({ends})" if one.precise else f"{name} {value} ({ends}; imprecise: {one.samples} calls)"


def _way(shipment: Shipment, one: Candidate, won: bool) -> WayInfo:
    broken = any(met.ok is False for met in one.met)
    unsure = bool(one.met) and not broken and any(met.ok is None for met in one.met)
    single = latency_of(one, shipment.plan.rows)
    rung = worst_rung(one.parity)
    return WayInfo(
        name=one.label,
        precision=one.precision,
        mark="+" if won else "-" if broken else "~" if unsure else "*" if one.on_front else "",
        speedup=times(one.speedup) if one.speedup is not None else "",
        latency=duration(single.percentiles[0].seconds) if single is not None and single.percentiles else "",
        accuracy=f"{100 * one.accuracy.treatment:.2f} %" if one.accuracy is not None else "",
        parity=f"{rung.sqnr_db:.0f} dB" if rung is not None and rung.sqnr_db is not None else "",
        memory=size(one.memory_bytes) if one.memory_bytes is not None else "",
        how=f"{one.running.threads} thread{'s' * (one.running.threads > 1)}, {one.stage}",
        says=tuple(met.says for met in one.met if met.ok is not True),
    )


def _measured(shipment: Shipment) -> Iterable[info.Fact]:
    where = shipment.environment
    if where is not None:
        yield info.Fact("machine", f"{where.processor}, {where.cores} cores")
        yield info.Fact("torch", where.torch)
    yield info.Fact(
        "how",
        "every way in its own process, against the module in eager PyTorch, in bursts that take turns in random order; "
        "an answer's time is the calling thread's own, without waiting for strangers",
    )
    if shipment.control is not None:
        single = latency_of(shipment.control, shipment.plan.rows)
        if single is not None:
            yield info.Fact("eager", "; ".join(map(percentile, single.percentiles)))
    foreign = max((one.foreign for way in shipment.candidates for one in way.latency), default=0.0)
    yield info.Fact("neighbours", f"other programs had up to {foreign:.0%} of the cores during a burst")


def _middle(candidate: Candidate) -> float:
    return candidate.speedup.middle if candidate.speedup is not None else 0.0


def render(shipment: Shipment, *, everything: bool = False, width: int = 100, colour: bool = False) -> str:
    """The answer first, then what was tried, and what was not and why."""
    told = shipment_info(shipment)
    return text._printed(_parts(told, everything=everything, width=width), width=width, colour=colour)


def _parts(told: ShipmentInfo, *, everything: bool, width: int) -> Iterable[text.Part]:
    yield text._said(told.headline, "bold green" if told.state == "well" else "bold red")
    yield text._said(told.under, "dim")
    for check in told.stopped:
        yield text._said(f"- {check.name}: {check.says}", "red")
        if check.where:
            yield text._indented(text._said(check.where, "dim"))
        if check.fix:
            yield text._indented(text._said(f"fix: {check.fix}"))
    if told.winner:
        yield from text._facts("What is shipped", told.winner)
    if told.objective:
        yield from text._facts("The objective", told.objective)
    if told.says:
        yield text._said("")
        yield from (text._said(each, "yellow") for each in told.says)
    if told.ladder:
        yield from text._heading("The ladder")
        yield _ladder(told)
    if told.resolutions:
        yield from text._facts("Smaller images, the module itself", told.resolutions)
    if told.ways:
        yield from text._heading("All ways that ran, against eager PyTorch")
        yield from _ways(told.ways if everything else told.ways[:SHOWN], width)
        left = len(told.ways) - SHOWN
        if left > 0 and not everything:
            yield text._said(f"{left} more, slower: `--everything` shows them", "dim")
    yield from _rest(told, everything=everything)


def _ladder(told: ShipmentInfo) -> text.Part:
    return text._pairs(
        (name, "  ".join(part for part in (seconds, ratio, accuracy) if part))
        for name, seconds, ratio, accuracy in told.ladder
    )


def _ways(ways: Iterable[WayInfo], width: int) -> Iterable[text.Part]:
    if width < NARROW:
        for way in ways:
            yield text._said(f"{way.mark or ' '} {way.name}: {way.speedup}, {way.latency}")
        return
    table = text._table(
        ("", {}), ("way", {}), ("faster", {}), ("P50", {}), ("accuracy", {}), ("parity", {}), ("memory", {})
    )
    for way in ways:
        table.add_row(
            *map(text._said, (way.mark, way.name, way.speedup, way.latency, way.accuracy, way.parity, way.memory))
        )
    yield table
    for way in ways:
        if way.mark in ("-", "~"):
            yield from (text._indented(text._said(f"{way.name}: {says}", "dim")) for says in way.says)


def _rest(told: ShipmentInfo, *, everything: bool) -> Iterable[text.Part]:
    if told.failed:
        yield from text._heading("Failed")
        yield text._pairs(told.failed)
    warned = [each for each in told.gate if each[0] in ("~", "?")]
    if everything:
        yield from text._heading("The gate")
        yield from (text._said(f"{mark} {name}: {says}") for mark, name, says in told.gate)
        yield from text._heading("Not tried")
        yield text._pairs(told.skipped)
        yield from text._facts("How it was measured", told.measured)
        return
    if warned:
        yield from text._heading("The gate warns")
        yield from (text._said(f"{mark} {name}: {says}") for mark, name, says in warned)
    if told.skipped:
        yield text._said("")
        yield text._said(f"{len(told.skipped)} not tried, with a reason each (`--everything`)", "dim")


def as_json(shipment: Shipment, *, indent: int = 2) -> str:
    """The document itself, for other programs."""
    return msgspec.json.format(msgspec.json.encode(shipment), indent=indent).decode()
