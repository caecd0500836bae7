"""What each of several processes that train together does with its time."""

from netdyno.records.base import Place
from netdyno.records.growth import Rank, Ranks
from netdyno.records.measured import Split
from netdyno.scripts.stream import Process, Stream, Tick

# The backward pass is where they meet. What only one of them does is no part of the common work.
MEETS = "backward"
APART = ("evaluation", "save", "log", "netdyno")
# Processes that train together have done the same number of updates, but for those under way when it ended.
SLACK = 2


def ranks_of(stream: Stream) -> Ranks | None:
    """The processes that made the same updates as the one that trains; None where it trains alone."""
    first = stream.training
    if first is None or not first.updates:
        return None
    together = [one for one in stream.processes if one.tick is not None and abs(one.updates - first.updates) <= SLACK]
    ranks = [rank for number, one in enumerate(together) if (rank := _rank(number, one)) is not None]
    if len(ranks) < 2:
        return None
    return Ranks(ranks=tuple(ranks), step_s=max(rank.busy_s + rank.waits_s for rank in ranks))


def _rank(number: int, process: Process) -> Rank | None:
    tick = process.tick
    assert tick is not None
    updates = tick.updates if tick.watched is None else tick.watched
    if updates <= 0 or not tick.phases:
        return None
    splits = {
        name: Split(running=parts[0], waiting=parts[1], blocked=parts[2])
        for name, parts in tick.phases.items()
        if name not in APART
    }
    waits = splits[MEETS].blocked if MEETS in splits else 0.0
    busy = sum(split.own for split in splits.values()) - waits
    return Rank(
        number=number, updates=process.updates, busy_s=busy / updates, waits_s=waits / updates, where=_line(tick)
    )


def _line(tick: Tick) -> Place | None:
    lines = [one for one in tick.lines if one.file and one.phase not in (MEETS, *APART)]
    most = max(lines, key=lambda one: one.samples, default=None)
    return Place(file=most.file, line=most.line) if most is not None else None
