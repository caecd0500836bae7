"""Before a service calls itself ready: every size it will run is run until it is quick, steady, and answers as single rows do."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netdyno.errors import NetdynoError
from netdyno.measure.latency import Burst, burst, elapsed
from netdyno.progress import Event, Listener, silent
from netdyno.runtimes._base import Arrays, Call, padded
from netdyno.serving.batches import Costs, costs_of
from netdyno.shipping.package import Package, distance

# A first request after the warm-up may take this much longer than a usual one (ledger A-245).
ALLOWED = 0.20
# Where a package allows any number of rows: each size is another shape to a compiler, so only these are run and others are padded up.
USUAL_SIZES = (1, 2, 4, 8)
ROUND_S, LEAST, ROUNDS = 0.05, 5, 8  # a warm-up is done after one quick round, or given up after eight
REPEATS = 10  # of the same single row, to see whether the same comes back; of larger batches two, whose rows are as many looks

Timer = Callable[[Callable[[int], object]], Burst]


class Sized(NamedTuple):
    """One size after its warm-up: seconds of the very first call, of the first after the warm-up, and of usual ones.

    `same` says that its rows are to the bit those of single requests, `worst` how far they are at most, of the answers' spread.
    """

    rows: int
    cold_s: float
    first_s: float
    usual: tuple[float, ...]
    same: bool
    worst: float

    @property
    def steady(self) -> bool:
        """Whether the first request after the warm-up is as quick as usual ones."""
        return self.first_s <= (1 + ALLOWED) * median(self.usual)


class Warmed(NamedTuple):
    """A model that is ready: its call, the sizes that are run, what they cost, and what there is to say."""

    call: Call
    sizes: tuple[Sized, ...]
    costs: Costs
    says: tuple[str, ...]


class Unstable(NetdynoError):
    """A model that does not answer the same twice."""


def warmed(
    package: Package,
    call: Call,
    *,
    exact: bool = False,
    largest: int | None = None,
    timer: Timer | None = None,
    listener: Listener = silent,
) -> Warmed:
    """Warm a loaded package up. Sizes whose rows differ from single requests' are left out; with `exact`, by a single bit.

    Raises Unstable when the same rows are answered differently from call to call (ledger A-250).
    """
    manifest = package.manifest
    allowed = manifest.running.batches or tuple(sorted({*USUAL_SIZES, *manifest.warm_up}))
    sizes = tuple(size for size in allowed if largest is None or size <= largest) or allowed[:1]
    call = padded(call, sizes)
    timer = timer or _timed
    rows = package.example()[0]
    single = _alone(call, rows, sizes[-1])
    kept: list[Sized] = []
    says: list[str] = []
    for done, size in enumerate(sizes):
        listener(Event(f"warming up {size} row{'s' if size > 1 else ''}", done, len(sizes)))
        found, moods = _size(call, rows, size, single, timer=timer, allowed=manifest.allowed)
        if moods:
            says.append(f"{moods} repeated calls with {size} rows differ in their last digits")
        if not found.same and (exact or found.worst > manifest.allowed):
            says.append(
                f"batches of {size} are left out: their rows differ from single requests' by {found.worst:.2g} of the spread"
            )
            continue
        kept.append(found)
    if not kept:
        raise Unstable(
            f"cannot serve `{manifest.name}`",
            because="no number of rows is answered as its rows alone are",
            hint="deploy it again; `netdyno deploy` stops models whose rows depend on their neighbours",
        )
    left = tuple(one.rows for one in kept)
    # Once more in turn: what a larger size put out of the caches is back for all of them, and this is what first requests meet.
    finals = [one._replace(first_s=_first(call, rows, one.rows, median(one.usual))) for one in kept]
    says += [
        f"{one.rows} rows: the first answer took {one.first_s / median(one.usual):.1f} times a usual one"
        for one in finals
        if not one.steady
    ]
    costs = costs_of({one.rows: median(one.usual) for one in finals})
    return Warmed(padded(call, left), tuple(finals), costs, tuple(says))


def _timed(call: Callable[[int], object]) -> Burst:
    return burst(call, seconds=ROUND_S, least=LEAST, most=1000)


def _size(call: Call, rows: Arrays, size: int, single: Arrays, *, timer: Timer, allowed: float) -> tuple[Sized, int]:
    batch = tiled(rows, size)
    cold = elapsed(lambda: call(batch))
    usual: tuple[float, ...] = ()
    for _ in range(ROUNDS):
        before, usual = usual, timer(lambda _: call(batch)).seconds
        # Runtimes get quicker in jumps: a round that is no quicker than the one before is the end.
        if before and median(usual) > 0.95 * median(before):
            break
    moods = _moods(call, batch, allowed, repeats=max(2, REPEATS // size))
    answers = call(batch)
    wanted = tuple(tiled((column,), size)[0] for column in single)
    same = all(_same(mine, theirs) for mine, theirs in zip(answers, wanted, strict=True))
    worst = max(distance(mine, theirs) for mine, theirs in zip(answers, wanted, strict=True))
    return Sized(size, cold, usual[0], usual, same, worst), moods


def _first(call: Call, rows: Arrays, size: int, usual: float) -> float:
    """Seconds of a first call; on a machine with neighbours, the best of three firsts."""
    batch = tiled(rows, size)
    firsts = []
    for _ in range(3):
        firsts.append(elapsed(lambda: call(batch)))
        if firsts[-1] <= (1 + ALLOWED) * usual:
            break
    return min(firsts)


def _moods(call: Call, batch: Arrays, allowed: float, *, repeats: int) -> int:
    """How many repeated calls differ in a bit. Raises Unstable when they differ by more than rounding."""
    first = call(batch)
    again = [call(batch) for _ in range(repeats)]
    far = sum(max(distance(b, a) for a, b in zip(first, one, strict=True)) > allowed for one in again)
    if far:
        raise Unstable(
            "cannot serve a model that answers the same rows differently",
            because=f"{far} of {repeats} repeated calls gave other answers",
            hint="look for dropout that is on, or random numbers in its forward; `netdyno deploy` stops such models",
        )
    return sum(not all(_same(a, b) for a, b in zip(first, one, strict=True)) for one in again)


def _alone(call: Call, rows: Arrays, most: int) -> Arrays:
    """The answers to each of the first rows asked alone."""
    count = min(len(rows[0]), most)
    answers = [call(tuple(column[at : at + 1] for column in rows)) for at in range(count)]
    return tuple(np.concatenate(columns) for columns in zip(*answers, strict=True))


def tiled(rows: Sequence[NDArray[Any]], size: int) -> Arrays:
    """So many rows, over and over the same where there are fewer."""
    return tuple(np.ascontiguousarray(column[np.arange(size) % len(column)]) for column in rows)


def _same(mine: NDArray[Any], theirs: NDArray[Any]) -> bool:
    return mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()
