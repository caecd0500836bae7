"""Data and model take turns although they could work side by side.

Looks for:  batches made in the training process itself, while making them and training on them each
            take a tenth of the step or more, and something is left idle: a core, or the time that
            samples spend blocked.
Matters:    side by side, a step lasts as long as the longer of the two, not as long as both.
Try:        one loader worker or more with prefetching, so that the next batch is made during this step.
Not this:   data that take longer than the model even side by side (see `input-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LoaderProfile, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.10  # handing a batch from a worker to the model costs a few per cent itself


@rule(suggests=("loader-workers", "persistent-workers", "prefetch-factor"))
def idle_overlap(timeline: StepTimeline, loader: LoaderProfile, threads: ThreadUse | None) -> Finding | None:
    if loader.workers > 0:
        return None
    data = timeline.share("data", "collate")
    possible = min(data, 1 - data)
    if possible < WORTH_A_WORD:
        return None
    blocked = loader.sample.blocked / loader.sample.own if loader.sample.own else 0.0
    # While samples are blocked any core will do; while they compute, another core has to be free.
    sure = min(data * blocked, 1 - data)
    spare = _spare_cores(threads)
    high = possible if spare is None or spare > 0 else sure
    if high < WORTH_A_WORD:
        return None
    return Finding(
        says=f"data ({data:.0%} of a step) and model ({1 - data:.0%}) take turns; side by side they would save up to {high:.0%}",
        layer="data",
        saves=Saving(low=sure, high=high),
        because={"data_share": data, "model_share": 1 - data, "sample_blocked_share": blocked},
        fix="make the next batch in loader workers while the model works on this one",
    )


def _spare_cores(threads: ThreadUse | None) -> float | None:
    if threads is None:
        return None
    return threads.cores * (1 - threads.others_share) - threads.torch_threads


def _case(*, data: Split, workers: int, sample: Split) -> tuple[StepTimeline, LoaderProfile]:
    work = Split(running=0.050)
    timeline = StepTimeline(steps=10, step=data + work, phases={"data": data, "forward": work})
    loader = LoaderProfile(
        sample=sample,
        augment=Split(),
        collate=Split(),
        batch_bytes=4096,
        samples=1000,
        dataset_bytes=None,
        deterministic=True,
        stackable=True,
        workers=workers,
        first_batch_s=0.05,
        epoch_start_s=0.05,
    )
    return timeline, loader


_FULL = ThreadUse(
    torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=1, waiting_share=0.0, others_share=0.0
)

SICK = (
    _case(data=Split(blocked=0.040), workers=0, sample=Split(blocked=0.001)),
    (*_case(data=Split(blocked=0.040), workers=0, sample=Split(blocked=0.001)), _FULL),
)
# Workers already overlap; too little data; samples that compute while all cores are in use.
WELL = (
    _case(data=Split(blocked=0.040), workers=4, sample=Split(blocked=0.001)),
    _case(data=Split(running=0.002), workers=0, sample=Split(running=0.001)),
    (*_case(data=Split(running=0.040), workers=0, sample=Split(running=0.001)), _FULL),
)
