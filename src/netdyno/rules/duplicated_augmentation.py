"""Workers draw the same random numbers, in every epoch again.

Looks for:  a loader with workers whose samples draw from a generator that all workers copy, or that `worker_init_fn` seeds
            with the same number whatever the worker.
Matters:    augmentation repeats across workers and epochs: there is far less variety than it seems.
Try:        seed from `torch.initial_seed()` in `worker_init_fn`, or draw from torch's own generator.
Not this:   seeds that depend on the worker; samples that draw nothing; no workers.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, healthy, loader, wrong


@rule(stage="data")
def duplicated_augmentation(samples: Samples) -> Finding | None:
    one = next(
        (one for one in samples.loaders if one.seeded_alike and one.workers > 0 and one.passes + one.workers > 2), None
    )
    if one is None:
        return None
    return wrong(
        f"all {one.workers} workers draw their random numbers from `{one.seeded_alike}` in the same state, and again in each "
        f"of {one.passes} epochs",
        fix="seed it per worker and epoch: np.random.default_rng(torch.initial_seed()) in worker_init_fn",
        because={"workers": float(one.workers), "passes": float(one.passes)},
        confidence=SURE,
        where=one.where,
    )


SICK = ((healthy(loaders=(loader(workers=4, seeded_alike="numpy.random", passes=3),)),),)
WELL = (
    (healthy(),),
    (healthy(loaders=(loader(workers=4),)),),
    (healthy(loaders=(loader(workers=0, seeded_alike="Augmented.rng"),)),),
)
