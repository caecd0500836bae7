"""All processes of a training go through the whole data set.

Looks for:  several processes that train together, and a loader whose pass in one of them is the whole data set.
Matters:    each epoch does the work of as many epochs as there are processes; with one seed they do the very same batches.
Try:        `DistributedSampler`, with `set_epoch` in each epoch.
Not this:   a distributed sampler; a share of the rows for each process; streams.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import LoaderRows, Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, loader, wrong


@rule(stage="data")
def shared_rank_samples(samples: Samples) -> Finding | None:
    one = next((one for one in samples.loaders if _whole(one)), None)
    if one is None:
        return None
    return wrong(
        f"{one.ranks} processes train together and each goes through all {one.dataset_rows} rows with a `{one.sampler}`",
        fix="give the loader `sampler=DistributedSampler(dataset)` and call `set_epoch` in each epoch",
        because={"processes": float(one.ranks), "rows": float(one.rows)},
        confidence=SURE,
        where=one.where,
        layer="compute",
    )


def _whole(one: LoaderRows) -> bool:
    # A data set that was cut beforehand looks like this too, but then nobody shuffles with the plain sampler of one seed.
    plain = one.sampler in ("RandomSampler", "SequentialSampler") and one.epoch_set is None
    return (
        one.ranks > 1
        and plain
        and not one.iterable
        and one.dataset_rows is not None
        and one.rows >= 0.95 * one.dataset_rows
    )


SICK = ((healthy(loaders=(loader(ranks=2),)),),)
WELL = (
    (healthy(),),
    (healthy(loaders=(loader(ranks=2, sampler="DistributedSampler", epoch_set=True, rows=674, distinct=674),)),),
)
