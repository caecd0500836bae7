"""The model waits for data.

Looks for:  steps in which fetching and collating the batch takes a tenth of the time or more.
Matters:    no change to the model can win this time back.
Try:        batch-wise or cached samples when they cost CPU time; more loader workers, also more
            than there are cores, when they wait for a disk or a network.
Not this:   a machine that is busy with something else (see `contended-machine`): waiting for a
            core is not counted here.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LineCost, LineCosts, LoaderProfile, LoaderUse, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.10  # below a tenth of the step, noise and cure cost about the same
MOSTLY = 2 / 3  # two thirds of a sample's time name its kind; in between it is mixed

CURES = {
    "I/O-bound": "samples wait for a disk, a network or a lock: use more loader workers, also more than there are "
    "cores, or keep the samples in memory",
    "CPU-bound": "samples cost CPU time: transform whole batches instead of single samples, cache what is decoded, "
    "or spread the work over loader workers while cores are idle",
    "mixed": "samples both compute and wait: cache what is decoded, then try loader workers",
}


# Fewer looks than this may have met any line by chance.
LOOKS = 5


@rule(
    suggests=(
        "batch-transforms",
        "cache-samples",
        "tensor-slicing",
        "loader-workers",
        "persistent-workers",
        "prefetch-factor",
    ),
    stage="bound",
)
def input_bound(
    timeline: StepTimeline, loader: LoaderProfile | None, lines: LineCosts | None = None, use: LoaderUse | None = None
) -> Finding | None:
    share = timeline.share("data", "collate")
    if share < WORTH_A_WORD:
        return None
    waited = timeline.phases.get("data", Split()) + timeline.phases.get("collate", Split())
    made = loader.sample + loader.augment if loader is not None else Split()
    sample = made if made.own > 0 else waited
    kind = kind_of(sample)
    blocked = sample.blocked / sample.own
    return Finding(
        says=f"the model waits for data {share:.0%} of every step; samples are {kind} ({blocked:.0%} of their time blocked)",
        layer="data",
        # Waiting can surely go on beside the model's work, as far as there is such work; computing may not.
        saves=Saving(low=min(share * blocked, 1 - share) if _serial(loader) else 0.0, high=share),
        because={
            "data_s": waited.own,
            "step_s": timeline.step.own,
            "sample_running_s": sample.running,
            "sample_blocked_s": sample.blocked,
        },
        fix=CURES[kind],
        where=_where(lines, use),
        explains=("idle-overlap",),
    )


def _where(lines: LineCosts | None, use: LoaderUse | None) -> Place | None:
    """The line of a script that most of the waiting went to; where none was met, the line that constructs the loader."""
    met = lines.of("data", "collate") if lines is not None else ()
    if met and met[0].samples >= LOOKS:
        return met[0].where
    trains = [loader for loader in use.loaders if loader.trains] if use is not None else []
    return trains[0].where if trains else met[0].where if met else None


def kind_of(sample: Split) -> str:
    """What making a sample mostly does.

    >>> kind_of(Split(running=0.001, blocked=0.009))
    'I/O-bound'
    """
    blocked = sample.blocked / sample.own
    if blocked >= MOSTLY:
        return "I/O-bound"
    return "CPU-bound" if blocked <= 1 - MOSTLY else "mixed"


def _serial(loader: LoaderProfile | None) -> bool:
    return loader is not None and loader.workers == 0


def _timeline(data: Split) -> StepTimeline:
    work = Split(running=0.050)
    return StepTimeline(steps=10, step=data + work, phases={"data": data, "forward": work})


_DECODES = LineCosts(
    lines=(
        LineCost(where=Place(file="train.py", line=12), function="__getitem__", phase="data", samples=40, share=0.8),
    ),
    samples=50,
    hz=50.0,
)
SICK = (
    (_timeline(Split(blocked=0.040)),),
    (_timeline(Split(running=0.040)), _DECODES),
    (_timeline(Split(running=0.040)),),
    (_timeline(Split(running=0.020, blocked=0.020)),),
)
# The second one waits for a core, not for data.
WELL = (
    (_timeline(Split(running=0.002)),),
    (_timeline(Split(running=0.002, waiting=0.500)),),
)
