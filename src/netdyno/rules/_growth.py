"""What several rules ask of numbers that were taken while a script went on: do they grow, and do they still?"""

import itertools
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

# The first quarter is warm-up: allocators, caches and first evaluations fill there in any program.
WARM = 0.25
# Growth that goes on is there in each of four stretches; half of the usual one is what a noisy machine may leave of it.
STRETCHES, LEAST = 4, 0.5
# Fewer looks than this make no stretches.
LOOKS = 12


class Rise(NamedTuple):
    """How much something grew per update, and altogether, past warm-up."""

    per_update: float
    total: float


def steady(series: Sequence[tuple[int, float]]) -> Rise | None:
    """The rise of what grows all the time; None where it came in a few jumps, or stopped, or never was.

    >>> steady([(at, 1000.0 * at) for at in range(40)]).per_update
    1000.0
    >>> steady([(at, 1000.0 * min(at, 20)) for at in range(40)]) is None
    True
    """
    later = series[int(WARM * len(series)) :]
    if len(later) < LOOKS:
        return None
    ends = [later[round(part * (len(later) - 1) / STRETCHES)] for part in range(STRETCHES + 1)]
    rises = [(last[1] - first[1]) / max(1, last[0] - first[0]) for first, last in itertools.pairwise(ends)]
    usual = median(rises)
    if usual <= 0 or min(rises) < LEAST * usual:
        return None
    total = ends[-1][1] - ends[0][1]
    return Rise(total / max(1, ends[-1][0] - ends[0][0]), total)
