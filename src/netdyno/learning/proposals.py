"""Where a search over many knobs looks next: a few knobs at once from recipes that stand, and near the best so far.

A sampler that sets every knob of some thirty in its first trials mostly learns that nonsense does not train. Few changes on
something that trains are likelier to be better, and leave fewer changes in a recipe that only came along.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from netdyno.learning.space import Dimension

# Trials that are spread out before the sampler draws conclusions; of each, about so large a share of all knobs is moved.
SPREAD = 10
MOVED = 0.2
# After that so large a share of all trials is near the best few, which are at most so many; the sampler draws the others.
NEAR = 0.5
BEST = 4
# How many knobs are moved near the best: one half of the time.
FEW = (1, 1, 2, 3)
# How far a number moves, as the standard deviation of its logarithm: a factor of two, mostly.
STEP = 0.7
# How often a knob that is moved goes back to how it stands.
BACK = 0.25

Drawn = Mapping[str, Any]  # what a trial draws, by name


class Done(NamedTuple):
    """A trial that came to its end."""

    drawn: Drawn
    score: float


class Proposals:
    """Proposes what the next trial draws. The same trial of the same search is proposed the same, also when it goes on after a crash."""

    def __init__(self, space: Sequence[Dimension], bases: Sequence[Drawn], *, seed: int) -> None:
        self.space, self.bases, self.seed = tuple(space), tuple(bases), seed

    def next(self, number: int, done: Sequence[Done]) -> dict[str, Any] | None:
        """What trial `number` draws; None where that is left to the sampler."""
        chance = random.Random(f"{self.seed} {number}")
        if number < SPREAD:
            many = sum(chance.random() < MOVED for _ in self.space)
            return self.moved(chance.choice(self.bases), max(1, many), chance)
        if chance.random() >= NEAR or not done:
            return None
        best = sorted(done, key=lambda one: -one.score)[: max(1, min(BEST, len(done) // 3))]
        return self.moved(chance.choice(best).drawn, min(len(self.space), chance.choice(FEW)), chance)

    def moved(self, drawn: Drawn, many: int, chance: random.Random) -> dict[str, Any]:
        """The same with so many knobs moved."""
        found = dict(drawn)
        for one in chance.sample(self.space, many):
            found |= _number(one, drawn, chance) if one.field is not None else _choice(one, drawn, chance)
        return found


def _choice(one: Dimension, drawn: Drawn, chance: random.Random) -> dict[str, Any]:
    others = [at for at in range(len(one.changes)) if at != drawn[one.knob]]
    back = drawn[one.knob] >= 0 and (not others or chance.random() < BACK)
    return {one.knob: -1 if back or not others else chance.choice(others)}


def _number(one: Dimension, drawn: Drawn, chance: random.Random) -> dict[str, Any]:
    if not drawn[f"{one.knob}?"]:
        return {
            f"{one.knob}?": True,
            one.knob: math.exp(chance.uniform(math.log(one.low), math.log(one.high))),
        }
    if chance.random() < BACK:
        return {f"{one.knob}?": False}
    return {one.knob: min(one.high, max(one.low, drawn[one.knob] * math.exp(chance.gauss(0.0, STEP))))}
