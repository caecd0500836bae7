"""Explosion: a value that leaves its own history behind, on the logarithm, and does not come back."""

import math
from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

# Noise, evaluations and heavy tails are known after some dozen values; a regime is forgotten after some hundred.
KEPT, LEAST = 200, 50
# What is compared with must be older than the explosion itself, or a steady one would be its own excuse.
LAG = 30
# Ten times the highest value ever: what a run did before it survived.
ABOVE = math.log(10.0)
# Robust deviations of the logarithm. Losses of noisy tasks and returns are about log-normal with tails; twelve leave room for them.
DEVIATIONS = 12.0
# A quiet run may double or halve by a new phase, a new data set, a new reward: a deviation is never taken for less than this.
LEAST_DEVIATION = 0.5
# A spike of one batch comes back by itself within a few updates.
IN_A_ROW = 5
# Unless it is such a spike as leaves nothing to come back to.
SUDDEN = math.log(1e6)
# Five times in a row at least three times as much: exponential growth, whatever was before.
GROWTH, GROWTHS = math.log(3.0), 5
NORMAL = 1.4826  # from the median deviation to the standard deviation of a normal distribution


class Explosion(NamedTuple):
    """The value, what was usual, the highest one before, and how many robust deviations lie between."""

    value: float
    usual: float
    highest: float
    deviations: float | None


class History:
    """Values of one quantity of one optimizer, in order. Zeros and signs do not count: sizes do."""

    def __init__(self) -> None:
        self.logs: deque[float] = deque(maxlen=KEPT)
        self.recent: deque[float] = deque()
        self.highest = -math.inf  # of those that are older than LAG, or the first one
        self.last = math.inf
        self.growths = 0
        self.outside = 0

    @property
    def suspicious(self) -> bool:
        """Whether something seems to begin."""
        return self.outside > 0 or self.growths > 1

    @property
    def most(self) -> float:
        """The size up to which a value is no explosion, whatever its like: the highest so far."""
        return math.exp(min(700.0, self.highest)) if self.highest > -math.inf else -1.0

    def judge(self, value: float) -> Explosion | None:
        """One more value: is it an explosion? Infinity and NaN are, where one had begun."""
        size = abs(value)
        if not size < math.inf:  # NaN is not less than anything
            return self._told(value) if self.suspicious else None
        if size == 0.0:
            self.growths = self.outside = 0
            return None
        log = math.log(size)
        self.growths = self.growths + 1 if log - self.last > GROWTH else 0
        self.last = log
        if log <= self.highest + ABOVE or not self.logs:
            self.outside = 0
            self._add(log)
            return None
        return self._high(value, log)

    def calm(self, values: Iterable[float]) -> None:
        """Values that were none of them larger than `most`, so that no judgement of theirs could have said anything."""
        recent, last, growths = self.recent, self.last, self.growths
        for value in values:
            if value == 0.0:
                growths = 0
                continue
            log = math.log(abs(value))
            growths = growths + 1 if log - last > GROWTH else 0
            last = log
            self.logs.append(log)
            recent.append(log)
        self.last, self.growths, self.outside = last, growths, 0
        while len(recent) > LAG:
            self.highest = max(self.highest, recent.popleft())

    def _high(self, value: float, log: float) -> Explosion | None:
        if self.growths >= GROWTHS:
            return self._told(value)
        deviations = self._deviations(log)
        if deviations is None or deviations < DEVIATIONS:
            self.outside = 0
            self._add(log)
            return None
        self.outside += 1
        if self.outside >= IN_A_ROW or log > self.highest + SUDDEN:
            return self._told(value)
        self._lag(log)  # if it stays a spike, higher ones are no news
        return None

    def _add(self, log: float) -> None:
        self.logs.append(log)
        self._lag(log)

    def _lag(self, log: float) -> None:
        if self.highest == -math.inf:
            self.highest = log
        self.recent.append(log)
        if len(self.recent) > LAG:
            old = self.recent.popleft()
            self.highest = max(self.highest, old)

    def _deviations(self, log: float) -> float | None:
        """None as long as there is too little history."""
        if len(self.logs) < LEAST:
            return None
        middle = median(self.logs)
        spread = NORMAL * median(abs(each - middle) for each in self.logs)
        return (log - middle) / max(spread, LEAST_DEVIATION)

    def _told(self, value: float) -> Explosion:
        finite = abs(value) < math.inf
        deviations = self._deviations(math.log(abs(value))) if finite else None
        usual = math.exp(median(self.logs)) if self.logs else 0.0
        return Explosion(value, usual, math.exp(min(700.0, self.highest)), deviations)
