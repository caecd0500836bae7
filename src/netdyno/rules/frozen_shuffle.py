"""A loader that should shuffle gives the same order in every epoch.

Looks for:  a random or distributed sampler whose passes have one and the same order.
Matters:    batches never mix anew; with a distributed sampler each process also keeps its half for good.
Try:        `sampler.set_epoch(epoch)` at the start of each epoch; seed a generator once, not in each epoch.
Not this:   an order that is not shuffled at all, a single batch, two passes.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import ScriptTrace
from netdyno.records.samples import LoaderRows, Samples
from netdyno.rules._base import first_place, rule
from netdyno.rules._samples import CERTAIN, SURE, healthy, loader, wrong

# That many shuffles do not come out alike by chance.
PASSES = 3


@rule(stage="data")
def frozen_shuffle(samples: Samples, trace: ScriptTrace | None = None) -> Finding | None:
    one = next((one for one in samples.loaders if _frozen(one)), None)
    if one is None:
        return None
    unset = one.epoch_set is False
    cause = (
        "its sampler never hears of a new epoch (`set_epoch` is not called)"
        if unset
        else "its generator starts anew each time"
    )
    return wrong(
        f"`{one.sampler}` gave the same order in all {one.passes} epochs: {cause}",
        fix="call `sampler.set_epoch(epoch)` at the start of each epoch"
        if unset
        else "seed once, before the first epoch",
        because={"passes": float(one.passes), "same_order": float(one.same_order), "rows": float(one.rows)},
        confidence=CERTAIN if unset else SURE,
        where=(first_place(trace, "epochs") if unset else None) or one.where,
        layer="data",
    )


def _frozen(one: LoaderRows) -> bool:
    shuffles = one.shuffles or one.epoch_set is False
    full = one.distinct > 20 and not one.one_batch
    return shuffles and full and one.passes >= PASSES and one.same_order >= one.passes - 1


SICK = (
    (healthy(loaders=(loader(sampler="DistributedSampler", ranks=2, epoch_set=False, passes=12, same_order=11),)),),
    (healthy(loaders=(loader(passes=10, same_order=9),)),),
)
WELL = (
    (healthy(),),
    (healthy(loaders=(loader(sampler="SequentialSampler", shuffles=False, same_order=19),)),),
    (healthy(loaders=(loader(one_batch=True, same_order=19),)),),
)
