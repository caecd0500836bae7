"""Bringing batches to the device takes the time.

Looks for:  placing a batch (device copy, layout, batch transforms) in a twentieth of the step or more.
Matters:    the device idles while it is fed, and copies from pageable memory cannot overlap with work.
Try:        pinned memory with non-blocking copies, smaller types (bytes instead of floats), converting on the device.
Not this:   layers that move bytes inside the model (see `memory-bandwidth-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for


@rule(suggests=("pin-memory",), stage="bound")
def copy_bound(timeline: StepTimeline, loader: LoaderProfile | None) -> Finding | None:
    share = timeline.share("copy")
    if share < WORTH_A_WORD:
        return None
    seconds = timeline.phases["copy"].own
    because = {"copy_s": seconds, "step_s": timeline.step.own}
    rate = ""
    if loader is not None and loader.batch_bytes:
        because["bytes_per_s"] = loader.batch_bytes / seconds
        rate = f", at {loader.batch_bytes / seconds / 1e9:.2g} GB/s"
    return Finding(
        says=f"placing the batch takes {share:.0%} of a step{rate}",
        layer="memory",
        # Copies can hide completely behind the step before; then only their launch remains.
        saves=Saving(low=0.0, high=share),
        because=because,
        fix="pin the loader's memory and copy without blocking, and convert types after the copy",
    )


def _timeline(copy: float) -> StepTimeline:
    phases = {"copy": Split(running=copy), "forward": Split(running=0.01)}
    return StepTimeline(steps=10, step=Split(running=copy + 0.01), phases=phases)


SICK = ((_timeline(0.002),),)
WELL = ((_timeline(0.0001),),)
