"""How numbers are said in the reasons of a verdict."""

import math

from netdyno.records.measured import Interval

# Below this width a whole per cent would hide the interval.
FINE = 0.04


def percent(share: float, *, decimals: int = 0) -> str:
    """A share for people.

    >>> percent(0.234)
    '23 %'
    """
    text = f"{100 * share:.{decimals}f}"
    return f"{text.removeprefix('-') if float(text) == 0 else text} %"


def level_of(interval: Interval) -> str:
    """The level, rounded down: never more certain than it is.

    >>> level_of(Interval(middle=0.0, low=0.0, high=0.0, level=0.9995))
    '99.95 %'
    """
    miss = 1 - interval.level
    if miss <= 0:
        return "100 %"
    decimals = max(0, -math.floor(math.log10(miss) + 1e-9) - 2)
    step: int = 10**decimals
    return f"{math.floor(100 * interval.level * step + 1e-6) / step:.{decimals}f} %"


def span(interval: Interval) -> str:
    """An interval of shares in brackets.

    >>> span(Interval(middle=0.23, low=0.21, high=0.25, level=0.95))
    '(95 %: 21 to 25 %)'
    """
    decimals = 0 if interval.width >= FINE else 1
    low = percent(interval.low, decimals=decimals).removesuffix(" %")
    return f"({level_of(interval)}: {low} to {percent(interval.high, decimals=decimals)})"


def saved(interval: Interval) -> str:
    """The middle and the range of a gain.

    >>> saved(Interval(middle=0.23, low=0.21, high=0.25, level=0.95))
    '23 % of a step (95 %: 21 to 25 %)'
    """
    decimals = 0 if interval.width >= FINE else 1
    return f"{percent(interval.middle, decimals=decimals)} of a step {span(interval)}"


def costs(interval: Interval) -> str:
    """The same for a change that costs time: signs turned round."""
    turned = Interval(middle=-interval.middle, low=-interval.high, high=-interval.low, level=interval.level)
    return saved(turned)


def said_bytes(count: float) -> str:
    """Bytes for people.

    >>> said_bytes(75_000_000)
    '75.0 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def said_seconds(seconds: float) -> str:
    """Seconds for people.

    >>> said_seconds(0.0123)
    '12.3 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 1e-6:.0f} µs"
