"""What a side of a trial is: a target under given changes that steps only when told."""

import math
from typing import Protocol

from netdyno.records.measured import Turn
from netdyno.records.trial import Change, Memory


class Arm(Protocol):
    """One side. Raises ArmError, and nothing else, when it crashes, hangs, is killed or runs out of memory.

    After an ArmError the arm is closed. An arm does no work between two calls: its loader workers, and in a
    process of its own the whole process group, are frozen. It has its own random stream, so what other sides
    draw, or the lab, does not shift what it draws.
    """

    @property
    def recipe(self) -> tuple[Change, ...]:
        """The changes it runs under."""

    @property
    def setup_s(self) -> float:
        """Seconds that applying the recipe and the first steps took beyond normal stepping: compilation, caching.

        Running plus blocked seconds. Gets sharper with every turn, because "normal" is the quickest step seen.
        """

    def turn(self, steps: int) -> Turn:
        """Take `steps` training steps and say where the time went."""

    def checksum(self) -> str:
        """The hash of the first batches it was fed (before placement): equal on sides fed the same data."""

    def memory(self) -> Memory:
        """Bytes of this side. Takes one more training step, uncounted, to see what it keeps for the backward pass."""

    def close(self) -> None:
        """Undo the changes and end everything that was started. Safe to call twice."""


def steps_per_turn(step_s: float, least_s: float, *, workers: int = 0) -> int:
    """How many steps make a turn of at least `least_s` seconds, in whole cycles of `workers` loader workers.

    Workers deliver in rotation, each with its own pace: only whole rotations make turns alike. For sides with
    different numbers of workers give their least common multiple.

    >>> steps_per_turn(0.01, 0.25)
    25
    >>> steps_per_turn(0.01, 0.25, workers=4)
    28
    """
    cycle = max(1, workers)
    if step_s <= 0:
        return cycle
    # A whole number of steps that rounding made a hair too large must not cost another cycle.
    cycles = math.ceil(round(least_s / step_s / cycle, 9))
    return cycle * max(1, cycles)
