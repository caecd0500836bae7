"""There are far more loader workers than cores, and they compute.

Looks for:  more than two workers for each core that the process may use, in loaders whose start or batches take a tenth of
            the time.
Matters:    workers that compute take turns with one another and with training; each costs memory and a start.
Try:        as many workers as there are cores that training leaves free.
Not this:   workers that wait for a disk or a network, of which many may run on one core.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place, StepTimeline
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

PER_CORE = 2
WORTH_A_WORD = 0.10


@rule(suggests=("loader-workers",))
def excess_workers(use: LoaderUse, waste: Waste, timeline: StepTimeline) -> Finding | None:
    worst = max((one for one in use.loaders if one.trains), key=lambda one: one.workers, default=None)
    if worst is None or worst.workers <= max(2, PER_CORE * waste.cores):
        return None
    share = timeline.share("data", "collate")
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"{worst.workers} loader workers share {waste.cores} cores with training, which still waits for them {share:.0%} of the time",
        layer="data",
        saves=Saving(low=0.0, high=share),
        because={"workers": float(worst.workers), "cores": float(waste.cores), "share": share},
        fix=f"num_workers={max(1, waste.cores - 1)}, or 0 where samples cost little",
        where=worst.where,
        confidence=0.8,
        explains=("input-bound", "idle-overlap", "restarted-workers", "oversubscribed-threads"),
        remedies=remedy("loader-workers", workers=max(1, waste.cores - 1)),
    )


def _case(workers: int, data: float = 0.01, cores: int = 2) -> tuple[LoaderUse, Waste, StepTimeline]:
    loader = Loader(
        where=Place(file="train.py", line=30),
        dataset="Digits",
        trains=True,
        iterable=False,
        batch_size=64,
        batches_per_pass=20,
        sampler="RandomSampler",
        ordered=False,
        own_order=False,
        workers=workers,
    )
    phases = {"data": Split(blocked=data), "forward": Split(running=0.01)}
    timeline = StepTimeline(steps=100, step=Split(running=0.01, blocked=data), phases=phases)
    return LoaderUse(loaders=(loader,), span_s=6.0), Waste(updates=100, cores=cores, threads=1), timeline


SICK = (_case(12),)
# As many as cores; many that nobody waits for; none; two on one core.
WELL = (_case(2), _case(12, data=0.0), _case(0), _case(2, cores=1))
