"""Memory grows while nothing new should be kept: a leak.

Looks for:  memory of the training process or of its loader that rises by at least four KiB a batch.
Matters:    the run ends when memory does, often hours later and far from the cause.
Try:        keep numbers instead of tensors (`loss.item()`, `.detach()`), clear lists that samples are appended to.
Not this:   a large but steady need (see `memory-pressure`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Environment
from netdyno.records.evidence import LoaderProfile
from netdyno.records.measured import Measurement, Split
from netdyno.records.record import Baseline
from netdyno.rules._base import rule

# One page per batch. An allocator that settles shows less; a list that keeps even one small tensor shows more.
GROWS = 4096.0


@rule(suggests=())
def memory_growth(loader: LoaderProfile, baseline: Baseline | None, environment: Environment | None) -> Finding | None:
    step = baseline.memory_slope_bytes if baseline is not None else 0.0
    slope, what = max((loader.memory_slope_bytes, "the loader"), (step, "a training step"))
    if slope < GROWS:
        return None
    return Finding(
        says=f"{what} keeps {slope / 1024:.0f} KiB more with every batch{_until(slope, environment)}",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={"loader_bytes_per_batch": loader.memory_slope_bytes, "step_bytes_per_batch": step},
        fix="look for a list, a dictionary or a graph that grows: append `float(x)` instead of a tensor, and detach what is kept",
    )


def _until(slope: float, environment: Environment | None) -> str:
    if environment is None or not environment.memory_bytes:
        return ""
    return f"; this machine's memory is full after {environment.memory_bytes / slope:,.0f} batches"


def _loader(slope: float) -> LoaderProfile:
    return LoaderProfile(
        sample=Split(running=0.001),
        augment=Split(),
        collate=Split(),
        batch_bytes=4096,
        samples=1000,
        dataset_bytes=None,
        deterministic=True,
        stackable=True,
        workers=0,
        first_batch_s=0.05,
        epoch_start_s=0.05,
        memory_slope_bytes=slope,
    )


def _baseline(slope: float) -> Baseline:
    nothing = Measurement(quantity="", unit="s", samples=())
    return Baseline(
        data=nothing,
        forward=nothing,
        forward_zeros=nothing,
        backward=nothing,
        optimizer=nothing,
        step=nothing,
        epoch_s=0.0,
        first_batch_s=0.0,
        peak_bytes=0,
        phases={},
        memory_slope_bytes=slope,
    )


SICK = ((_loader(200_000.0),), (_loader(0.0), _baseline(1e6)))
WELL = ((_loader(100.0),), (_loader(-5000.0), _baseline(0.0)))
