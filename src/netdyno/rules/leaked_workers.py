"""Loader workers of past epochs are still alive.

Looks for:  more and more child processes of the script, at three looks and never fewer, while it makes loaders with workers.
Matters:    each keeps its copy of the data set, its memory and its queue, and takes turns on the cores.
Try:        construct the loader once; or drop `persistent_workers=True` where a new one is made each epoch.
Not this:   one loader with many workers, loaders for training and validation side by side.
"""

import itertools

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.records.growth import Growth
from netdyno.rules._base import rule

# Training and validation loader may start one after the other.
RISES = 3


@rule(suggests=(), stage="use")
def leaked_workers(growth: Growth, use: LoaderUse) -> Finding | None:
    counts = [count for _, count in growth.children]
    pairs = list(itertools.pairwise(counts))
    rises = sum(later > sooner for sooner, later in pairs)
    worst = max((one for one in use.loaders if one.workers and one.built > 1), key=lambda one: one.built, default=None)
    if rises < RISES or any(later < sooner for sooner, later in pairs) or worst is None:
        return None
    return Finding(
        says=f"{counts[-1]} worker processes are alive, {counts[0]} were at first: one line made {worst.built} loaders of"
        f" {worst.workers} workers each, and those of the earlier ones never end",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={
            "processes_first": float(counts[0]),
            "processes_last": float(counts[-1]),
            "loaders": float(worst.built),
        },
        fix="construct the loader once, before the loop over epochs",
        where=worst.where,
        confidence=0.95,
        explains=("rebuilt-loader", "input-bound", "memory-leak"),
    )


def _case(*counts: int, **fields: object) -> tuple[Growth, LoaderUse]:
    known: dict[str, object] = {
        "where": Place(file="train.py", line=30),
        "dataset": "Photos",
        "trains": True,
        "iterable": False,
        "batch_size": 32,
        "batches_per_pass": 32,
        "sampler": "RandomSampler",
        "ordered": False,
        "own_order": False,
        "workers": 2,
        "built": 4,
    }
    growth = Growth(
        updates=100, cycle=1, resident=(), children=tuple((at * 20, count) for at, count in enumerate(counts))
    )
    return growth, LoaderUse(loaders=(Loader(**(known | fields)),), span_s=10.0)  # type: ignore[arg-type]


SICK = (_case(2, 4, 6, 8),)
# Workers that end with each epoch; training and validation; one loader.
WELL = (_case(2, 0, 2, 0, 2), _case(0, 2, 4), _case(2), _case(0, 2, 4, 6, built=1))
