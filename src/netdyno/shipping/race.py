"""Exported models against each other: short bursts in turns, in an order drawn anew each round, every side in its own process."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from statistics import median
from typing import NamedTuple, Protocol

from netdyno.errors import ArmError
from netdyno.measure.latency import Burst
from netdyno.records.measured import Interval, Measurement
from netdyno.records.trial import Change, Trial
from netdyno.stats.paired import UNBOUNDED, hodges_lehmann, log_ratios
from netdyno.stats.spread import over_spawns

# A burst lasts long enough for a few calls of the slowest side, and short enough for neighbours to meet all sides alike.
BURST_S = 0.2
# With several threads a burst counts only while other programs have less than this share of the cores: threads that wait for each
# other wait for whoever has been put aside. A clean machine shows 1 to 5 %.
CLEAN = 0.15
# Pairs that are taken for each one asked for, at most, before a busy machine is an answer.
PATIENCE = 4
# Two equal processes differ by some per cent for as long as they live: what lies within is settled by fresh spawns.
CLOSE = 1.10


class Side(Protocol):
    """Something that runs bursts: a process that holds an exported model."""

    def burst(self, rows: int, seconds: float, *, least: int = 3, most: int = 100_000) -> Burst:
        """Calls in a row."""

    def close(self) -> None:
        """End it."""


class Busy(Exception):
    """The machine was too busy for what was to be measured."""


class Paired(NamedTuple):
    """Bursts of two sides in turns: own seconds per call, one of each side per pair, in the order in which they were taken."""

    control: tuple[float, ...]
    treatment: tuple[float, ...]
    order: tuple[str, ...]
    spawns: tuple[int, ...]
    seconds: tuple[float, ...]  # of every single call of the treatment
    cpu: float
    foreign: float

    @property
    def ratios(self) -> list[float]:
        """Logarithms of control over treatment."""
        return log_ratios(self.control, self.treatment)


def paired(
    control: Side,
    treatment: Side,
    *,
    rows: int,
    pairs: int,
    chance: random.Random,
    burst_s: float = BURST_S,
    spawn: int = 0,
    clean: float = 1.0,
) -> Paired:
    """So many pairs of bursts; which side goes first is drawn for each pair.

    A pair in which strangers had more than `clean` of the cores is taken again, up to `PATIENCE` times as many as asked for. Raises
    Busy when there are too few then.
    """
    taken: dict[str, list[Burst]] = {"A": [], "B": []}
    order: list[str] = []
    for _ in range(PATIENCE * pairs if clean < 1 else pairs):
        turn = chance.choice(("AB", "BA"))
        both = {letter: (control if letter == "A" else treatment).burst(rows, burst_s) for letter in turn}
        if max(one.foreign for one in both.values()) > clean:
            continue
        order.append(turn)
        for letter, one in both.items():
            taken[letter].append(one)
        if len(order) == pairs:
            break
    if len(order) < pairs:
        raise Busy(
            f"other programs had more than {clean:.0%} of the cores in {PATIENCE * pairs - len(order)} pairs of {PATIENCE * pairs}"
        )
    return Paired(
        control=tuple(one.own for one in taken["A"]),
        treatment=tuple(one.own for one in taken["B"]),
        order=tuple(order),
        spawns=(spawn,) * pairs,
        seconds=tuple(each for one in taken["B"] for each in one.seconds),
        cpu=sum(one.cpu for one in taken["B"]) / pairs,
        foreign=max(one.foreign for one in (*taken["A"], *taken["B"])),
    )


def joined(parts: Sequence[Paired]) -> Paired:
    """Pairs of several spawns as one."""
    return Paired(
        control=tuple(one for part in parts for one in part.control),
        treatment=tuple(one for part in parts for one in part.treatment),
        order=tuple(one for part in parts for one in part.order),
        spawns=tuple(at for at, part in enumerate(parts) for _ in part.order),
        seconds=tuple(one for part in parts for one in part.seconds),
        cpu=sum(part.cpu for part in parts) / len(parts),
        foreign=max(part.foreign for part in parts),
    )


def speedup(found: Paired, level: float) -> Interval:
    """How many times as fast the treatment answers: within one spawn over its pairs, over several with each as one value.

    One spawn tells nothing of what another would show; its interval is that of this spawn alone.
    """
    spawns = sorted(set(found.spawns))
    by_spawn = [
        [ratio for ratio, at in zip(found.ratios, found.spawns, strict=True) if at == spawn] for spawn in spawns
    ]
    if len(spawns) > 1:
        return _risen(over_spawns(by_spawn, level))
    return _risen(hodges_lehmann(by_spawn[0], level))


def _risen(log: Interval) -> Interval:
    return Interval(middle=math.exp(log.middle), low=math.exp(log.low), high=math.exp(log.high), level=log.level)


def trial(change: Change, found: Paired, *, lower_precision: bool, environment: str = "", cost_s: float = 0.0) -> Trial:
    """The pairs as a trial like any other: its treatment runs elsewhere."""
    return Trial(
        change=change,
        against=(),
        form="processes",
        numerics="lower-precision" if lower_precision else "reordered",
        control=Measurement(quantity="answer", unit="s", samples=found.control, environment=environment),
        treatment=Measurement(quantity="answer", unit="s", samples=found.treatment, environment=environment),
        order=found.order,
        spawns=found.spawns,
        looks=(len(found.order),),
        planned_pairs=len(found.order),
        cost_s=cost_s,
    )


class Runner(NamedTuple):
    """One who is in a race, and how to start it."""

    name: str
    start: Callable[[], Side]


class Standing(NamedTuple):
    """What a race showed of one runner. `behind` is its time over the leader's, with an interval; `out` says in which round it was left."""

    name: str
    own: tuple[float, ...]
    behind: Interval | None
    out: int | None
    failed: str | None = None


def race(
    runners: Sequence[Runner],
    *,
    rows: int,
    rounds: int,
    keep: int,
    chance: random.Random,
    error: float,
    burst_s: float = BURST_S,
    went: Callable[[int, int], None] = lambda _done, _left: None,
) -> tuple[Standing, ...]:
    """All in turns, round by round; who is surely slower than the leader by more than `CLOSE` leaves. The best first.

    The race ends early when no more than `keep` are left. A runner that fails leaves with its reason.
    """
    taken: dict[str, list[float]] = {one.name: [] for one in runners}
    failed: dict[str, str] = {}
    out: dict[str, int] = {}
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for one in runners:
            try:
                sides[one.name] = one.start()
                stack.callback(sides[one.name].close)
            except ArmError as reason:
                failed[one.name] = reason.says
        for at in range(rounds):
            left = [name for name in sides if name not in out and name not in failed]
            if len(left) < 2 or (at >= 4 and len(left) <= keep):
                break
            for name in chance.sample(left, len(left)):
                try:
                    taken[name].append(sides[name].burst(rows, burst_s).own)
                except ArmError as reason:
                    failed[name] = reason.says
            for name in _left_behind(taken, [one for one in left if one not in failed], error / max(1, rounds)):
                out[name] = at + 1
                with suppress(ArmError):
                    sides[name].close()
            went(at + 1, len(left))
    return _standings(taken, failed, out, level=1 - error)


def _leader(taken: Mapping[str, Sequence[float]], names: Sequence[str]) -> str:
    return min(names, key=lambda name: median(taken[name]))


def _left_behind(taken: Mapping[str, Sequence[float]], left: Sequence[str], error: float) -> list[str]:
    if len(left) < 2:
        return []
    first = _leader(taken, left)
    gone = []
    for name in left:
        if name == first:
            continue
        found = _behind(taken[first], taken[name], 1 - error)
        if found is not None and found.low > CLOSE:
            gone.append(name)
    return gone


def _behind(leader: Sequence[float], other: Sequence[float], level: float) -> Interval | None:
    """How many times the leader's time the other takes; None with too few rounds to bound it."""
    count = min(len(leader), len(other))
    if not count:
        return None
    found = hodges_lehmann(log_ratios(other[:count], leader[:count]), level)
    return _risen(found) if found.low > -UNBOUNDED else None


def _standings(
    taken: Mapping[str, Sequence[float]], failed: Mapping[str, str], out: Mapping[str, int], *, level: float
) -> tuple[Standing, ...]:
    ran = [name for name, times in taken.items() if times and name not in failed]
    first = _leader(taken, ran) if ran else ""
    found = [
        Standing(
            name,
            tuple(times),
            _behind(taken[first], times, level) if times and name != first and name not in failed else None,
            out.get(name),
            failed.get(name),
        )
        for name, times in taken.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.failed is not None, median(one.own) if one.own else float("inf"))))
