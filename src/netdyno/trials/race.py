"""Arms take turns, in random order within every round; turns on a busy machine are run again."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from netdyno.arms.base import Arm
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Turn

# A round whose arms waited for a core for more than the limit is run again, but a machine that is busy
# all the time must not keep a trial from ending: after this many repeats in a row the round counts.
MOST_RERUNS = 3


class Round(NamedTuple):
    """One turn of every arm. `order` has the arms' positions in the order they ran."""

    turns: tuple[Turn, ...]
    order: tuple[int, ...]
    rerun: int

    def seconds(self, arm: int) -> float:
        """Running plus blocked seconds per step of one arm."""
        return self.turns[arm].per_step


def race(
    arms: Sequence[Arm],
    *,
    rounds: int,
    steps: int | Sequence[int],
    chance: random.Random,
    waiting_limit: float = 1.0,
    until: Callable[[list[Round]], bool] = lambda _: False,
    listener: Listener = silent,
    doing: str = "racing",
) -> list[Round]:
    """At most `rounds` rounds; stops early when `until` says so. The order within a round is drawn afresh each time.

    Arms fed alike must take equal numbers of steps, so a round that is run again is run again for all of them.
    Raises ArmError when an arm fails.
    """
    each = [steps] * len(arms) if isinstance(steps, int) else list(steps)
    done: list[Round] = []
    for number in range(rounds):
        listener(Event(doing, number, rounds))
        done.append(_round(arms, each, chance, waiting_limit))
        if until(done):
            break
    return done


def _round(arms: Sequence[Arm], steps: list[int], chance: random.Random, waiting_limit: float) -> Round:
    for rerun in range(MOST_RERUNS + 1):
        order = list(range(len(arms)))
        chance.shuffle(order)
        turns: dict[int, Turn] = {position: arms[position].turn(steps[position]) for position in order}
        calm = max(turn.waiting_share for turn in turns.values()) <= waiting_limit
        if calm or rerun == MOST_RERUNS:
            break
    return Round(tuple(turns[position] for position in range(len(arms))), tuple(order), rerun)
