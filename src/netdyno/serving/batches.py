"""How many of the waiting rows go into the next batch, by what batches of each size were seen to cost. Pure arithmetic."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Two sizes whose rows cost the same within this share are not told apart by a warm-up: the smaller one answers sooner.
ALIKE = 0.03


class Costs(NamedTuple):
    """Seconds of a batch of each size, ascending. `exact` says that only these sizes can be run; others are padded up."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    exact: bool = True

    @property
    def largest(self) -> int:
        """Rows of the largest batch."""
        return self.sizes[-1]

    def size_for(self, rows: int) -> int:
        """Rows that are computed for so many: padded up where only some sizes can be run, and whole where rows are many."""
        if not self.exact or rows >= self.largest:
            return rows
        return self.sizes[bisect_left(self.sizes, rows)]

    def of(self, rows: int) -> float:
        """Seconds for so many rows: as measured, between two sizes in a straight line, beyond the largest in several batches.

        >>> Costs((1, 4), (1.0, 2.5), exact=False).of(2), Costs((1, 4), (1.0, 2.5)).of(2)
        (1.5, 2.5)
        """
        whole, rest = divmod(rows, self.largest)
        if whole:
            return whole * self.seconds[-1] + (self.of(rest) if rest else 0.0)
        at = bisect_left(self.sizes, rows)
        if self.exact or self.sizes[at] == rows or at == 0:
            return self.seconds[at]
        low, high = self.sizes[at - 1], self.sizes[at]
        return self.seconds[at - 1] + (self.seconds[at] - self.seconds[at - 1]) * (rows - low) / (high - low)

    @property
    def per_row(self) -> float:
        """Seconds of a row in the cheapest batch: what a full queue costs at least."""
        return min(seconds / size for size, seconds in zip(self.sizes, self.seconds, strict=True))


def costs_of(measured: Mapping[int, float], *, exact: bool = True) -> Costs:
    """Costs from seconds by size. A larger batch never costs less: a warm-up that says so was disturbed."""
    sizes = tuple(sorted(measured))
    seconds: list[float] = []
    for size in reversed(sizes):
        seconds.append(min(measured[size], seconds[-1]) if seconds else measured[size])
    return Costs(sizes, tuple(reversed(seconds)), exact)


def take(rows: Sequence[int], costs: Costs) -> int:
    """How many of the waiting requests, oldest first, make the batch whose rows are cheapest; at least one.

    Five rows where only 1, 4 and 8 can be run: four at once and one after it, if a batch of eight costs more than both.

    >>> take([1] * 5, Costs((1, 4, 8), (1.0, 2.0, 4.0))), take([1] * 5, Costs((1, 4, 8), (1.0, 2.0, 2.1)))
    (4, 5)
    """
    best, cheapest, whole = 1, float("inf"), 0
    for count, more in enumerate(rows, start=1):
        whole += more
        if whole > costs.largest and count > 1:
            break
        each = costs.of(whole) / whole
        if each < cheapest * (1 - ALIKE):
            best, cheapest = count, each
    return best
