"""Numbers as people read them: a fitting unit, no false digits, a true minus sign, a range beside the middle."""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from netdyno.records.measured import Interval

MINUS = "−"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Unit(NamedTuple):
    """One unit: how many of the base unit it is, and its sign."""

    size: float
    sign: str


TIMES = (Unit(1e-9, "ns"), Unit(1e-6, "µs"), Unit(1e-3, "ms"), Unit(1.0, "s"), Unit(60.0, "min"), Unit(3600.0, "h"))
SIZES = (Unit(1.0, "B"), Unit(1e3, "kB"), Unit(1e6, "MB"), Unit(1e9, "GB"), Unit(1e12, "TB"))
COUNTS = (Unit(1.0, ""), Unit(1e3, "k"), Unit(1e6, "M"), Unit(1e9, "G"), Unit(1e12, "T"), Unit(1e15, "P"))


def time_unit(seconds: float) -> Unit:
    """The unit in which this many seconds read best. Minutes begin at two, hours at two.

    >>> time_unit(0.0124).sign, time_unit(90).sign, time_unit(150).sign
    ('ms', 's', 'min')
    """
    patience = {"min": 120.0, "h": 7200.0}
    fitting = [unit for unit in TIMES if abs(seconds) >= patience.get(unit.sign, unit.size) * 0.9995]
    return fitting[-1] if fitting else (TIMES[0] if seconds else TIMES[2])


def _fitting(units: tuple[Unit, ...], value: float) -> Unit:
    fitting = [unit for unit in units if abs(value) >= unit.size * 0.9995]
    return fitting[-1] if fitting else units[0]


def fixed(value: float, decimals: int) -> str:
    """A number with this many decimals.

    >>> fixed(-0.04, 1), fixed(-1.25, 2), fixed(12400, 0)
    ('0.0', '−1.25', '12,400')
    """
    text = f"{value:,.{decimals}f}"
    if not text.strip("-0.,"):
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def decimals_for(value: float, digits: int = 3) -> int:
    """How many decimals show `value` with this many digits that count."""
    if not value:
        return 0
    # The exponent after rounding: 0.9999 with three digits is 1.00, not 1.000.
    exponent = int(f"{abs(value):.{digits - 1}e}".rpartition("e")[2])
    return min(max(digits - 1 - exponent, 0), 9)


def number(value: float, digits: int = 3) -> str:
    """A bare number, whole ones as they are.

    >>> number(0.012345), number(412.0), number(5)
    ('0.0123', '412', '5')
    """
    whole = float(value).is_integer() and abs(value) < 1e15
    return fixed(value, 0 if whole else decimals_for(value, digits))


def in_unit(value: float, unit: Unit, digits: int = 3) -> str:
    """A value of the base unit, written in `unit`.

    >>> in_unit(0.0124, Unit(1e-3, "ms"))
    '12.4 ms'
    """
    scaled = value / unit.size
    return f"{fixed(scaled, decimals_for(scaled, digits))} {unit.sign}".rstrip()


def duration(seconds: float, digits: int = 3) -> str:
    """Seconds in the unit that reads best.

    >>> duration(0.0124), duration(0.000021), duration(171.4), duration(0)
    ('12.4 ms', '21.0 µs', '2.86 min', '0 ms')
    """
    return in_unit(seconds, time_unit(seconds), digits)


def size(count: float, digits: int = 3) -> str:
    """Bytes, in powers of a thousand.

    >>> size(412_000_000), size(640)
    ('412 MB', '640 B')
    """
    unit = _fitting(SIZES, count)
    return f"{fixed(count, 0)} B" if unit.sign == "B" else in_unit(count, unit, digits)


def rate(per_second: float, of: str) -> str:
    """So many of something in a second.

    >>> rate(114e9, "FLOP/s"), rate(18.4e9, "B/s")
    ('114 GFLOP/s', '18.4 GB/s')
    """
    unit = _fitting(COUNTS, per_second)
    scaled = per_second / unit.size
    return f"{fixed(scaled, decimals_for(scaled))} {unit.sign}{of}"


def share(part: float) -> str:
    """A share as per cent, with a decimal only where it counts.

    >>> share(0.341), share(0.0213), share(-0.34), share(0), share(0.0001)
    ('34 %', '2.1 %', '−34 %', '0 %', '< 0.1 %')
    """
    percent = 100 * part
    if 0 < percent < 0.05:
        return "< 0.1 %"
    return f"{fixed(percent, 0 if abs(percent) >= 9.95 or not percent else 1)} %"


def setting(part: float) -> str:
    """A share that somebody chose, with the digits that they gave it.

    >>> setting(0.05), setting(0.025)
    ('5 %', '2.5 %')
    """
    return f"{100 * part:.6g} %"


def times(factor: float) -> str:
    """A speed-up.

    >>> times(1.8204), times(12.44)
    ('1.82×', '12.4×')
    """
    return f"{fixed(factor, decimals_for(factor, 3))}×"


def _decimals_between(low: float, high: float, middle: float) -> int:
    width = high - low
    if width <= 0:
        return decimals_for(middle)
    by_width = min(max(-math.floor(math.log10(width) + 1e-9), 0), 3)
    return max(by_width, min(decimals_for(middle, 2), by_width + 1))


class Ranged(NamedTuple):
    """An interval in words: `12.4 ms` and `12.2 to 12.6 ms`."""

    middle: str
    range: str

    def __str__(self) -> str:
        return f"{self.middle} ({self.range})"


def ranged(interval: Interval, unit: Unit, decimals: int | None = None) -> Ranged:
    """An interval in `unit`, with no more decimals than its width deserves.

    >>> str(ranged(Interval(middle=0.0124, low=0.0122, high=0.0126), Unit(1e-3, "ms")))
    '12.4 ms (12.2 to 12.6 ms)'
    """
    middle, low, high = (value / unit.size for value in (interval.middle, interval.low, interval.high))
    places = _decimals_between(low, high, middle) if decimals is None else decimals
    gap = "" if unit.sign in ("×", "") else " "
    tail = f"{gap}{unit.sign}"
    return Ranged(f"{fixed(middle, places)}{tail}", f"{fixed(low, places)} to {fixed(high, places)}{tail}")


def ranged_time(interval: Interval) -> Ranged:
    """An interval of seconds, all three numbers in the unit that fits the middle."""
    return ranged(interval, time_unit(max(abs(interval.middle), interval.width)))


def ranged_share(interval: Interval) -> Ranged:
    """An interval of shares, in per cent.

    >>> str(ranged_share(Interval(middle=0.34, low=0.31, high=0.37)))
    '34 % (31 to 37 %)'
    """
    return ranged(interval, Unit(0.01, "%"))


def ranged_times(interval: Interval) -> Ranged:
    """An interval of speed-ups.

    >>> str(ranged_times(Interval(middle=1.83, low=1.79, high=1.87)))
    '1.83× (1.79 to 1.87×)'
    """
    return ranged(interval, Unit(1.0, "×"))


def plain(text: str) -> str:
    """Text without what moves a cursor, paints a terminal or turns the direction of reading.

    >>> plain("a\\x1b[31mb\\x07c")
    'abc'
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The same, with line breaks turned into spaces."""
    return " ".join(plain(text).split())


class _Kind(NamedTuple):
    """What the last word of a measured value's name says about its unit."""

    written: Callable[[float], str]
    a_second: Callable[[float], str]
    alone: str  # its name when no other word is left


def _per_second(value: float) -> str:
    return f"{number(value)} per s"


_KINDS = {
    "s": _Kind(duration, share, "time"),
    "seconds": _Kind(duration, share, "time"),
    "bytes": _Kind(size, lambda value: rate(value, "B/s"), "traffic"),
    "flops": _Kind(lambda value: rate(value, "FLOP"), lambda value: rate(value, "FLOP/s"), "arithmetic"),
    "flop": _Kind(lambda value: f"{number(value)} FLOP", lambda value: rate(value, "FLOP/s"), "intensity"),
    "share": _Kind(share, _per_second, "share"),
}


def by_name(name: str, value: float) -> str:
    """A measured value written in the unit that its name speaks of.

    >>> by_name("data_s", 0.0051), by_name("peak_bytes", 4.1e8), by_name("blocked_share", 0.25), by_name("workers", 2.0)
    ('5.10 ms', '410 MB', '25 %', '2')
    >>> by_name("bytes_per_s", 9e9), by_name("ridge_flop_per_byte", 6.2), by_name("step_bytes_per_batch", 180.0)
    ('9.00 GB/s', '6.20 FLOP per byte', '180 B per batch')
    """
    head, _, per = name.partition("_per_")
    kind = _KINDS.get("share" if head.startswith("share_of") else head.rpartition("_")[2])
    if per == "s":
        return kind.a_second(value) if kind else _per_second(value)
    return f"{kind.written(value) if kind else number(value)}{f' per {spoken(per)}' if per else ''}"


def spoken(name: str) -> str:
    """The words of a measured value's name, its unit left out.

    >>> spoken("memory_slope_bytes"), spoken("data_s"), spoken("seconds_per_step"), spoken("blocked_share")
    ('memory slope', 'data', 'time', 'blocked share')
    """
    head = name.partition("_per_")[0]
    front, _, last = head.rpartition("_")
    if last in _KINDS and last != "share":
        head = front or _KINDS[last].alone
    return plain(head.replace("_", " ")).strip()
