"""What happened in each update, in which order, and how many updates make one period of the script."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import eq

Key = tuple[int, ...]

TOKENS = (
    "data",
    "loader",
    "fwd",
    "bwd",
    "grad",
    "clip",
    "zero_grad",
    "sched",
    "sync",
    "save",
    "log",
    "eval",
    "unscale",
    "skip",
)
DATA, LOADER, FORWARD, BACKWARD, GRAD, CLIP, ZERO_GRAD, SCHEDULER, SYNC, SAVE, LOG, EVALUATION, UNSCALE, SKIP = range(
    len(TOKENS)
)
STEP = 32  # the step of optimizer i is token STEP + i

# Longest period that is looked for: five critic updates and one of the generator, twice over, with room.
LONGEST = 16
# Updates that are kept to look for a period: four of the longest.
KEPT = 4 * LONGEST
# Fewer repeats than this prove nothing; a plain script is known after four updates.
LEAST = 4
# Optimizers that exist but have not stepped yet may be due later (critics go first): wait this long for them.
LATE = 24
# Logging every few updates makes odd ones out. A period holds when seven of ten updates repeat what came one before.
ENOUGH = 0.7
# Distinct kinds of updates that are told apart; a script with more (free-running episodes) has no usual one.
MOST_KINDS = 200
OTHER: Key = (-1,)


def in_words(key: Iterable[int]) -> str:
    """The event string of an update.

    >>> in_words((DATA, ZERO_GRAD, FORWARD, FORWARD, FORWARD, BACKWARD, STEP))
    'data zero_grad fwd*3 bwd step0'
    """
    return " ".join(_repeated(token, len(list(group))) for token, group in groupby(key))


def _repeated(token: int, times: int) -> str:
    name = "other" if token < 0 else f"step{token - STEP}" if token >= STEP else TOKENS[token]
    return name if times == 1 else f"{name}*{times}"


class Steps:
    """Keeps what the current update has done, and counts what finished ones did."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.last: Key = ()
        self.kinds: dict[Key, int] = {}
        self.recent: deque[tuple[int, Key]] = deque(maxlen=KEPT)
        self.finished = 0
        self.cycle: int | None = None

    def finish(self, optimizer: int, expected: int) -> None:
        """The update of `optimizer` is over; `expected` optimizers are known to exist."""
        key = self.last = tuple(self.events)
        self.events.clear()
        kinds = self.kinds
        if key in kinds:
            kinds[key] += 1
        else:
            kinds[key if len(kinds) < MOST_KINDS else OTHER] = (
                kinds.get(OTHER, 0) + 1 if len(kinds) >= MOST_KINDS else 1
            )
        self.recent.append((optimizer, key))
        self.finished += 1
        # Once known, a look now and then: some scripts begin with one optimizer and let the other join later.
        if (self.cycle is None and self.finished <= KEPT) or self.finished % KEPT == 0:
            self.cycle = period(self.recent, expected) or self.cycle

    def forget(self) -> None:
        """Begin again: the unit that is counted has changed."""
        self.kinds.clear()
        self.recent.clear()
        self.finished = 0
        self.cycle = None

    def words(self) -> dict[str, int]:
        """How many updates had which event string."""
        return {in_words(key): count for key, count in list(self.kinds.items())}


def period(updates: Iterable[tuple[int, Key]], expected: int = 1) -> int | None:
    """The least number of updates after which things repeat; None while that cannot be said.

    >>> period([(0, (2, 3, 32))] * 4)
    1
    """
    seen = list(updates)
    optimizers = [optimizer for optimizer, _ in seen]
    if len(set(optimizers)) < expected and len(seen) < LATE:
        return None
    bare = {key: tuple(event for event in key if event not in (DATA, LOADER)) for key in {key for _, key in seen}}
    # The first update holds what the script did before its loop.
    keys = [bare[key] for _, key in seen][1:]
    shortest = None
    for p in range(1, LONGEST + 1):
        if len(seen) >= max(LEAST, 2 * p + 1) and _repeats(optimizers, p) == 1.0:
            if _repeats(keys, p) >= ENOUGH:
                return p
            shortest = shortest or p
    # Free-running episodes never repeat; then the optimizers alone say what a period is, once there was time to see.
    return shortest if len(seen) >= LATE else None


def _repeats(values: Sequence[object], p: int) -> float:
    """The share of values that equal the one `p` before."""
    pairs = len(values) - p
    return sum(map(eq, values, values[p:])) / pairs if pairs > 0 else 0.0
