"""A load test as text: what was offered, what held, and what the figures rest on."""

import textwrap
from collections.abc import Iterator

from netdyno.records.deployment import Met, Percentile
from netdyno.records.load import Load, LoadGenRun, Offered, Probe
from netdyno.verdicts import slo
from netdyno.verdicts.words import level_of, said_bytes, said_seconds

VERDICTS = {True: "held", False: "broken", None: "cannot tell"}
MARK, MARKS = 4, ("yes ", "NO  ", "?   ")
ARRIVALS = {"poisson": "Poisson", "constant": "evenly spaced"}
# Percentiles that are shown of a stretch of load; the objective's own are added.
SHOWN = (0.5, 0.9, 0.99)


def text(load: Load, *, width: int = 100) -> str:
    """The whole test. Its tables fit into 60 columns, and sentences are broken at `width`."""
    lines = [f"load test of {load.target}", *_body(load)]
    return "\n".join(_broken(line.rstrip(), max(40, width)) for line in lines) + "\n"


def _broken(line: str, width: int) -> str:
    """A sentence over several lines; verdicts hang by the width of their mark. What fits, a table for one, is left as it is."""
    if len(line) <= width:
        return line
    hang = " " * MARK if line.startswith(MARKS) else ""
    return textwrap.fill(line, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def _body(load: Load) -> Iterator[str]:
    if load.loadgen is not None:
        yield from _loadgen(load.loadgen)
    elif len(load.probes) == 1:
        yield from _one(load.probes[0])
    else:
        yield from _table(load)
    if load.met:
        yield ""
        yield from (_met(one) for one in load.met)
    if load.says:
        yield ""
        yield from load.says


def _met(met: Met) -> str:
    return f"{ {True: 'yes', False: 'NO', None: '?'}[met.ok]:{MARK}}{met.constraint.text}: {met.says}"


def _loadgen(run: LoadGenRun) -> Iterator[str]:
    yield f"LoadGen scenario `{run.scenario}`, {run.queries:,} samples; no MLPerf result"
    yield ""
    if run.scenario != "single-stream":
        yield f"rate      {run.rate:,.1f} samples per second"
    if run.target_rate is not None and run.limit_s is not None and run.share is not None:
        yield f"asked     {run.target_rate:g}/s, P{100 * run.share:g} within {said_seconds(run.limit_s)}"
    # LoadGen's own have no interval; ours of a single stream have.
    for one in run.own or run.percentiles:
        yield _percentile(one)
    for bound in run.bounds:
        yield f"P{100 * bound.share:<8g} {said_seconds(bound.seconds)} at most (99 %), says LoadGen's early stopping"
    yield ""
    yield from run.says
    yield from (f"LoadGen advises: {one}" for one in run.advice)


def _one(probe: Probe) -> Iterator[str]:
    load = probe.load
    yield f"open loop, {ARRIVALS[load.arrivals]} arrivals at {load.rate:g}/s"
    yield "latency from when a request was due to its last byte"
    yield ""
    yield f"sent      {load.due:,}"
    yield f"failed    {_failures(load)}"
    for one in load.percentiles:
        if one.share in SHOWN or any(slo.share_of(met.constraint) == one.share for met in probe.met):
            yield _percentile(one)
    yield f"in flight {load.most_in_flight} at most, over {load.connections} connections"
    if load.server_cpu_s is not None:
        memory = f", {said_bytes(load.server_bytes)} of memory" if load.server_bytes is not None else ""
        yield f"service   {said_seconds(load.server_cpu_s)} of CPU per answer{memory}"
    yield f"generator {load.generator_cpu:.0%} of a core" + (
        f", at P99 {said_seconds(load.lag.seconds)} late itself" if load.lag is not None else ""
    )


def _percentile(one: Percentile) -> str:
    range_ = ""
    if one.interval is not None:
        low, high = said_seconds(one.interval.low), said_seconds(one.interval.high)
        range_ = f"({level_of(one.interval)}: {low} to {high})"
    imprecise = "" if one.precise else f"  imprecise, of {one.samples} samples"
    return f"P{100 * one.share:<8g} {said_seconds(one.seconds)} {range_}{imprecise}"


def _failures(load: Offered) -> str:
    if not load.failed:
        return "0"
    kinds = ", ".join(f"{count} {reason}" for reason, count in load.failures.items())
    return f"{load.failed:,} ({load.failed / load.due:.2%}): {kinds}"


def _table(load: Load) -> Iterator[str]:
    share = max((share for one in load.plan.objective if (share := slo.share_of(one)) is not None), default=0.99)
    yield f"open loop, {ARRIVALS[load.plan.arrivals]} arrivals; latency from when a request was due"
    yield ""
    yield f"{'rate':>9} {'sent':>8} {'failed':>7} {'P50':>9} {f'P{100 * share:g}':>9}  verdict"
    for probe in load.probes:
        offered = probe.load
        at = {one.share: said_seconds(one.seconds) for one in offered.percentiles}
        yield (
            f"{offered.rate:>7.4g}/s {offered.due:>8,} {offered.failed:>7,} {at.get(0.5, ''):>9} "
            f"{at.get(share, ''):>9}  {'given up' if probe.ok is False and offered.given_up else VERDICTS[probe.ok]}"
        )
    yield from dict.fromkeys(probe.says for probe in load.probes if probe.says not in VERDICTS.values())
