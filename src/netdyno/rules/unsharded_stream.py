"""Each worker of a loader yields the whole stream.

Looks for:  an iterable data set behind several workers, and rows that come once per worker in one pass.
Matters:    an epoch is as many times longer as there are workers, and batches repeat what was just learnt.
Try:        in `__iter__`, take every n-th sample by `torch.utils.data.get_worker_info()`.
Not this:   workers that share the stream; rows that repeat without workers.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import LoaderRows, Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, healthy, loader, wrong


@rule(stage="data")
def unsharded_stream(samples: Samples) -> Finding | None:
    one = next((one for one in samples.loaders if _repeats(one)), None)
    if one is None:
        return None
    return wrong(
        f"each of the {one.workers} workers yields the whole stream: {one.rows} rows in a pass are {one.distinct} different ones",
        fix="share the stream between workers with torch.utils.data.get_worker_info() in __iter__",
        because={"rows": float(one.rows), "distinct": float(one.distinct), "workers": float(one.workers)},
        confidence=CERTAIN,
        where=one.where,
    )


def _repeats(one: LoaderRows) -> bool:
    # The last pass may have been cut; nine tenths of the repeats are proof enough.
    return one.iterable and one.workers > 1 and one.distinct >= 20 and one.rows >= 0.9 * one.workers * one.distinct


SICK = ((healthy(loaders=(loader(iterable=True, workers=3, rows=3000, distinct=1000, times_each=3.0),)),),)
# A map; a shared stream; a stream that repeats by itself.
WELL = (
    (healthy(),),
    (healthy(loaders=(loader(iterable=True, workers=3, rows=1000, distinct=1000),)),),
    (healthy(loaders=(loader(iterable=True, workers=0, rows=3000, distinct=1000),)),),
)
