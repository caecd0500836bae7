"""Memory of the process grows with every update, and does not stop.

Looks for:  resident memory that rises in each quarter of the run past warm-up, by 8 MiB and more, while a list, a
            dictionary or a cache of the script has more and more entries, and they are as large.
Matters:    the run ends when memory does, often hours later and far from the cause.
Try:        clear what is collected once it was used, keep numbers, bound the cache (`maxsize`), or save to disk.
Not this:   a cache that fills and then stays, a replay buffer with a bound or made at once and filled later, an allocator
            that settles, graphs that are kept (see `growing-graph`).
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.growth import Growth, Swelling
from netdyno.rules._base import rule
from netdyno.rules._growth import Rise, steady

# What allocators of Python and of C take at a time, several times over.
WORTH_A_WORD = 8 << 20
# A container is to blame when what it holds makes up a third of what memory grew by.
BLAME = 1 / 3
# A cache whose entries nobody can weigh gets one in every second update at least, and each takes a page.
OFTEN, PAGE = 0.5, 4096
# Then the rest of the process, and whoever looks at it, has to be out of the question.
UNWEIGHED = 64 << 20


@rule(suggests=(), stage="use")
def memory_leak(growth: Growth) -> Finding | None:
    rise = steady(growth.resident)
    if rise is None or rise.total < WORTH_A_WORD:
        return None
    blamed = max((one for one in growth.swellings if _weighs(one, rise)), key=_bytes, default=None)
    if blamed is None:
        return None
    return Finding(
        says=f"memory grows by {rise.per_update / 1024:.0f} KiB with every update, {rise.total / 2**20:.0f} MiB past warm-up and steadily"
        + _says(blamed),
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={
            "bytes_per_update": rise.per_update,
            "grown_bytes": rise.total,
            "updates": float(growth.updates),
            "entries": float(blamed.last),
        },
        fix=f"empty or bound `{blamed.name}`, or keep less in it",
        where=blamed.where,
        confidence=0.85,
    )


def _weighs(one: Swelling, rise: Rise) -> bool:
    rate = (one.last - one.first) / max(1, one.updates)
    if one.each_bytes is None:
        return rate >= OFTEN and rise.per_update >= rate * PAGE and rise.total >= UNWEIGHED
    return rate * one.each_bytes >= BLAME * rise.per_update


def _bytes(one: Swelling) -> tuple[bool, float]:
    rate = (one.last - one.first) / max(1, one.updates)
    return one.each_bytes is not None, rate * (one.each_bytes or 1)


def _says(one: Swelling) -> str:
    at = (
        f" ({os.path.basename(one.where.file or '?')}:{one.where.line})"
        if one.where is not None and one.where.line
        else ""
    )
    return f": `{one.name}`{at} went from {one.first} to {one.last} entries and is never emptied"


def _growth(slope: float, stops: int = 10**9, **fields: object) -> Growth:
    series = tuple((at, int(3e8 + slope * min(at, stops))) for at in range(0, 1000, 10))
    return Growth(updates=1000, cycle=1, resident=series, **fields)  # type: ignore[arg-type]


def _swelling(each: int | None, name: str = "seen") -> Swelling:
    return Swelling(name=name, where=Place(file="train.py", line=20), first=8, last=1000, updates=992, each_bytes=each)


# Activations kept in a list; a cached function.
SICK = (
    (_growth(20_000.0, swellings=(_swelling(20_000),)),),
    (_growth(200_000.0, swellings=(_swelling(None, "Model.rotary"),)),),
)
# A history of numbers; growth that stops; none at all; growth of which nobody
# knows the cause, a replay buffer say, whose pages are filled one by one; a cache of small things; a bit of it.
WELL = (
    (_growth(100.0, swellings=(_swelling(None, "history"),)),),
    (_growth(20_000.0, stops=500, swellings=(_swelling(20_000),)),),
    (_growth(0.0),),
    (_growth(20_000.0),),
    (_growth(20_000.0, swellings=(_swelling(None, "Tokenizer.encode"),)),),
    (_growth(2000.0, swellings=(_swelling(1000),)),),
)
