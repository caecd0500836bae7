"""Loader workers copy the data set, object by object, while they only read it.

Looks for:  memory of its own that each worker has more and more of, over a data set of ten thousand Python objects or more.
Matters:    a forked worker shares memory until it is written to, and looking at a Python object writes its count of
            references: in the end each worker holds a copy of everything.
Try:        keep the records in arrays or tensors (numbers, or bytes of one width), which are not counted one by one.
Not this:   workers that are large from the start, arrays that are shared, caches of decoded samples.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LoaderUse
from netdyno.records.growth import Growth, Private
from netdyno.rules._base import rule

# Buffers of a worker's first batches make it a little larger, and no more.
GROWS = 1.2
READS = 4
# A container of a data set is worth the change when what is copied is worth a word: several MiB in each worker.
WORTH_A_WORD = 4 << 20


@rule(suggests=(), stage="use")
def worker_memory(growth: Growth, use: LoaderUse | None) -> Finding | None:
    each = [one.bytes / one.workers for one in growth.private if one.workers]
    first, last = _rise(each)
    if not growth.objects or len(each) < READS or last < GROWS * first or last - first < WORTH_A_WORD:
        return None
    worst = next((one for one in use.loaders if one.workers), None) if use is not None else None
    return Finding(
        says=f"each loader worker grew from {first / 2**20:.0f} to {last / 2**20:.0f} MiB of its own while it only read: `{growth.dataset}`"
        f" holds {growth.objects:,} Python objects, and each look at one copies its page",
        layer="data",
        saves=Saving(low=0.0, high=0.0),
        because={"first_bytes": first, "last_bytes": last, "objects": float(growth.objects)},
        fix="keep the records in arrays or tensors instead of Python objects",
        where=worst.where if worst is not None else None,
        confidence=0.85,
    )


def _rise(sizes: list[float]) -> tuple[float, float]:
    """The smallest size and the largest that came after it."""
    best = (0.0, 0.0)
    for at, size in enumerate(sizes):
        later = max(sizes[at:])
        if later - size > best[1] - best[0]:
            best = (size, later)
    return best


def _growth(*mebibytes: int, objects: int = 200_000) -> Growth:
    private = tuple(Private(batches=8 * at, workers=2, bytes=2 * size << 20) for at, size in enumerate(mebibytes, 1))
    return Growth(updates=0, cycle=1, resident=(), private=private, dataset="Catalogue.records", objects=objects)


SICK = ((_growth(16, 20, 26, 32, 40),), (_growth(16, 30, 40, 16, 30, 40),))
# Shared arrays; large from the start; few reads; a cache of samples, which is no container of objects.
WELL = (
    (_growth(16, 16, 16, 17, 17),),
    (_growth(40, 40, 41, 41),),
    (_growth(16, 40),),
    (_growth(16, 26, 36, 46, objects=0),),
)
