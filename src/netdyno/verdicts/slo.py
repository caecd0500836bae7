"""What a service promises: an objective read from words, and whether measurements keep each part of it. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Constraint, Met, Percentile
from netdyno.records.measured import Interval
from netdyno.stats.percentiles import asked, fewest, percentile, share_beyond
from netdyno.verdicts.words import level_of, said_bytes, said_seconds

EXAMPLE = "p99<=15ms, drop<=0.5%, memory<=200MB, rate>=100/s"

TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6}
SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
SHARES = {"%": 1e-2}
RATES = {"/s": 1.0, "qps": 1.0, "rps": 1.0, "/min": 1 / 60}
ENERGIES = {"j": 1.0, "mj": 1e-3, "uj": 1e-6, "µj": 1e-6}
POWERS = {"w": 1.0, "mw": 1e-3}


@dataclass(frozen=True, slots=True)
class Quantity:
    """What can be promised: its units, how it is said, and whether less of it is better."""

    units: Mapping[str, float]
    like: str
    says: str
    at_most: bool = True


QUANTITIES = {
    "drop": Quantity(SHARES, "drop<=0.5%", "accuracy drop"),
    "memory": Quantity(SIZES, "memory<=200MB", "memory"),
    "size": Quantity(SIZES, "size<=20MB", "size on disk"),
    "rate": Quantity(RATES, "rate>=100/s", "rate", at_most=False),
    "energy": Quantity(ENERGIES, "energy<=50mJ", "energy of an answer"),
    "power": Quantity(POWERS, "power<=25W", "power"),
    "cold": Quantity(TIMES, "cold<=2s", "cold start"),
    "first": Quantity(TIMES, "first<=100ms", "first answer"),
    "failures": Quantity(SHARES, "failures<=0.1%", "share of failures"),
}
LATENCY = Quantity(TIMES, "p99<=15ms", "latency")

PART = re.compile(
    r"(?P<name>[a-z]+[\d.]*)\s*(?P<sign><=|>=|<|>|≤|≥|=<|=>)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[^\d\s]*)",
    re.IGNORECASE,
)


def parse(text: str) -> tuple[Constraint, ...]:
    """The constraints that an objective is made of, in base units: seconds, bytes, shares, per second, joules, watts.

    `<` is read as `<=`. Raises NetdynoError for what is no objective.

    >>> [(one.quantity, one.limit, one.at_most) for one in parse("p99 ≤ 15 ms, rate>=100/s")]
    [('p99', 0.015, True), ('rate', 100.0, False)]
    """
    constraints = tuple(_constraint(part.strip(), text) for part in text.split(",") if part.strip())
    if not constraints:
        raise _unclear(text, because="it is empty")
    names = [one.quantity for one in constraints]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _unclear(text, because=f"`{twice}` is limited twice", hint=f"keep the tighter limit of `{twice}`")
    return constraints


def _constraint(part: str, whole: str) -> Constraint:
    found = PART.fullmatch(part)
    if found is None:
        raise _unclear(whole, because=f"`{part}` is not `QUANTITY<=NUMBER UNIT`")
    name = found["name"].lower()
    quantity = _quantity(name, part)
    factor = quantity.units.get(found["unit"].lower())
    if factor is None:
        units = ", ".join(quantity.units)
        because = f"`{part}` has no unit" if not found["unit"] else f"`{found['unit']}` is no unit of {quantity.says}"
        raise _unclear(whole, because=because, hint=f"units are {units}: `{quantity.like}`")
    if quantity.at_most is (">" in found["sign"] or found["sign"] == "≥"):
        side = "above" if quantity.at_most else "below"
        raise _unclear(whole, because=f"`{part}` bounds it from the wrong side: a promise limits {quantity.says} from {side}",
                       hint=f"write it like `{quantity.like}`")  # fmt: skip
    limit = float(found["number"]) * factor
    # No answer takes no time and no memory; a drop of nothing is a promise that somebody may make.
    if not limit and name != "drop":
        raise _unclear(whole, because=f"`{part}` cannot be kept", hint=f"write it like `{quantity.like}`")
    sign = "<=" if quantity.at_most else ">="
    return Constraint(
        quantity=name, limit=limit, at_most=quantity.at_most, text=f"{name}{sign}{found['number']}{found['unit']}"
    )


def _quantity(name: str, part: str) -> Quantity:
    if name in QUANTITIES:
        return QUANTITIES[name]
    if re.fullmatch(r"p\d+(\.\d+)?", name):
        if 0 < float(name[1:]) < 100:
            return LATENCY
        raise _unclear(
            part, because=f"`{name}` is no percentile", hint="percentiles lie between p0 and p100: p50, p99, p99.9"
        )
    if name in {"latency", "mean", "max", "avg"}:
        raise _unclear(
            part,
            because=f"`{name}` does not say which percentile, and they differ: 14.2 ms at P50 is 15.1 ms at P99 elsewhere",
            hint="say which: `p50<=15ms`, `p99<=15ms`",
        )
    raise _unclear(
        part, because=f"`{name}` is nothing that is measured", hint=f"limit p50 … p99.9, {', '.join(QUANTITIES)}"
    )


def _unclear(text: str, *, because: str, hint: str = f"write it like `{EXAMPLE}`") -> NetdynoError:
    return NetdynoError(f"cannot read the objective `{text}`", because=because, hint=hint)


def share_of(constraint: Constraint) -> float | None:
    """The share of a latency percentile, None for other quantities.

    >>> share_of(parse("p99.9<=20ms")[0])
    0.999
    """
    if not re.fullmatch(r"p\d+(\.\d+)?", constraint.quantity):
        return None
    return round(float(constraint.quantity[1:]) / 100, 9)


def met(
    constraint: Constraint,
    *,
    percentiles: Sequence[Percentile] = (),
    values: Mapping[str, float | Interval] | None = None,
    samples: Sequence[float] = (),
    level: float = 0.95,
) -> Met:
    """Whether one constraint is kept: by the percentile it names, or by the value under its quantity's name.

    None, "cannot tell", when the limit lies inside the interval, or nothing was measured. A plain number has no interval and is compared as it is.
    With the latency `samples` themselves, in seconds and in the order they were made, the share of them beyond the limit decides.
    """
    share = share_of(constraint)
    if share is not None and samples:
        return _met_by_samples(constraint, share, samples, level)
    if share is not None:
        return _met_by_percentile(constraint, share, percentiles)
    value = (values or {}).get(constraint.quantity)
    if value is None:
        return Met(constraint=constraint, ok=None, says=f"cannot tell: {_named(constraint)} was not measured")
    middle = value.middle if isinstance(value, Interval) else value
    return _judged(constraint, middle, value if isinstance(value, Interval) else None)


def all_met(
    constraints: Iterable[Constraint],
    *,
    percentiles: Sequence[Percentile] = (),
    values: Mapping[str, float | Interval] | None = None,
    samples: Sequence[float] = (),
    level: float = 0.95,
) -> tuple[Met, ...]:
    """`met` for each constraint of an objective."""
    return tuple(met(one, percentiles=percentiles, values=values, samples=samples, level=level) for one in constraints)


def kept(verdicts: Iterable[Met]) -> bool | None:
    """The whole objective: False when one part is broken, else None when one cannot be told, else True.

    >>> kept([Met(constraint=one, ok=None) for one in parse("p99<=1ms")]) is None
    True
    """
    answers = [one.ok for one in verdicts]
    return False if False in answers else None if None in answers else True


def _met_by_percentile(constraint: Constraint, share: float, percentiles: Sequence[Percentile]) -> Met:
    found = next((one for one in percentiles if abs(one.share - share) < 1e-9), None)
    if found is None:
        return Met(constraint=constraint, ok=None, says=f"cannot tell: {_named(constraint)} was not measured")
    if found.interval is None and found.samples:
        return _too_few(constraint, found, percentiles)
    judged = _judged(constraint, found.seconds, found.interval)
    if found.precise:
        return judged
    return Met(
        constraint=constraint, ok=judged.ok, value=judged.value,
        says=f"{judged.says}; imprecise: {found.samples} samples, {asked(share)} are asked for",
    )  # fmt: skip


def _met_by_samples(constraint: Constraint, share: float, samples: Sequence[float], level: float) -> Met:
    """P99 is at most the limit when no more than one sample in a hundred lies beyond it."""
    beyond = share_beyond(samples, constraint.limit, level)
    allowed = 1 - share
    # Exactly as many as allowed is kept: the comparison is of shares that rounding has touched.
    ok = True if beyond.high <= allowed + 1e-12 else False if beyond.low > allowed + 1e-12 else None
    value = percentile(samples, share, level).seconds
    words = {True: "kept", False: "broken", None: "cannot tell"}[ok]
    says = (
        f"{words}: {_named(constraint)} is {said_seconds(value)}; {100 * beyond.middle:.2g} % of {len(samples)} samples took longer than "
        f"{said_seconds(constraint.limit)} ({level_of(beyond)}: {100 * beyond.low:.2g} to {100 * beyond.high:.2g} %), "
        f"{100 * allowed:.3g} % may"
    )
    return Met(constraint=constraint, ok=ok, value=value, says=says)


def _too_few(constraint: Constraint, found: Percentile, percentiles: Sequence[Percentile]) -> Met:
    """A percentile without an interval is broken all the same when one below it is: the higher one is no smaller."""
    below = [one for one in percentiles if one.share < found.share and one.interval is not None]
    broken = next((one for one in below if one.interval is not None and one.interval.low > constraint.limit), None)
    if broken is not None:
        return Met(
            constraint=constraint, ok=False, value=found.seconds,
            says=f"broken: even P{100 * broken.share:g} is {said_seconds(broken.seconds)}, and {_named(constraint)} "
            f"may take {_said(constraint, constraint.limit)}",
        )  # fmt: skip
    return Met(
        constraint=constraint, ok=None, value=found.seconds,
        says=f"cannot tell: {_named(constraint)} is {said_seconds(found.seconds)} in {found.samples} samples, "
        f"and an interval takes {fewest(found.share)} that don't stall together",
    )  # fmt: skip


def _judged(constraint: Constraint, value: float, interval: Interval | None) -> Met:
    low, high = (value, value) if interval is None else (interval.low, interval.high)
    limit = constraint.limit
    if constraint.at_most:
        ok = True if high <= limit else False if low > limit else None
    else:
        ok = True if low >= limit else False if high < limit else None
    range_ = ""
    if interval is not None:
        range_ = f" ({level_of(interval)}: {_said(constraint, low)} to {_said(constraint, high)})"
    words = {True: "kept", False: "broken", None: "cannot tell"}[ok]
    bound = "at most" if constraint.at_most else "at least"
    says = f"{words}: {_named(constraint)} is {_said(constraint, value)}{range_}, and may be {bound} {_said(constraint, limit)}"
    return Met(constraint=constraint, ok=ok, value=value, says=says)


def _named(constraint: Constraint) -> str:
    if share_of(constraint) is not None:
        return constraint.quantity.upper()
    return QUANTITIES[constraint.quantity].says if constraint.quantity in QUANTITIES else constraint.quantity


def _said(constraint: Constraint, value: float) -> str:
    """A value in the unit that a person would use for it."""
    units = LATENCY.units if share_of(constraint) is not None else QUANTITIES[constraint.quantity].units
    if units is TIMES:
        return said_seconds(value)
    if units is SIZES:
        return said_bytes(value)
    if units is SHARES:
        return f"{100 * value:.2f} %"
    if units is RATES:
        return f"{value:.4g}/s"
    if units is POWERS:
        return f"{value:.3g} W"
    return f"{value * 1e3:.3g} mJ"
