"""Hooks pile up on the model: the same ones are registered again and again, and none is removed.

Looks for:  more hooks on the modules and weights at each of several looks, and never fewer.
Matters:    every forward or backward pass runs all of them, and each keeps alive what it refers to.
Try:        register once before training, or keep the handle and `handle.remove()` when it has done its work.
Not this:   hooks that are registered once, or removed after each use; weight norm and pruning, which are hooks too.
"""

import itertools

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.growth import Growth
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# A model that is built up step by step may gain some once or twice.
RISES = 3


@rule(suggests=(), stage="use")
def accumulating_hooks(growth: Growth) -> Finding | None:
    counts = [count for _, count in growth.hooks]
    pairs = list(itertools.pairwise(counts))
    rises = sum(later > sooner for sooner, later in pairs)
    if rises < RISES or any(later < sooner for sooner, later in pairs):
        return None
    return Finding(
        says=f"the model carries {counts[-1]} hooks after {growth.hooks[-1][0]} updates and had {counts[0]} at first: they are registered"
        " again and again and never removed",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),  # what it costs grows with the length of the run
        because={"hooks_first": float(counts[0]), "hooks_last": float(counts[-1]), "rises": float(rises)},
        fix="register the hook once, before the loop, or call `handle.remove()` after its use",
        where=growth.hook_where,
        confidence=0.95,
        explains=("memory-leak", "growing-graph"),
        remedies=remedy("hook-once"),
    )


def _growth(*counts: int) -> Growth:
    hooks = tuple((2**at, count) for at, count in enumerate(counts))
    return Growth(
        updates=2 ** len(counts), cycle=1, resident=(), hooks=hooks, hook_where=Place(file="train.py", line=30)
    )


SICK = ((_growth(1, 1, 2, 3, 4, 8),), (_growth(0, 6, 12, 18),))
# Registered once; removed after each use; spectral norm from the start; none.
WELL = ((_growth(0, 1, 1, 1, 1),), (_growth(1, 0, 1, 0, 1, 0, 1),), (_growth(4, 4, 4, 4),), (_growth(0, 0, 0),))
