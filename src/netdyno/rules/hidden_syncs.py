"""A line reads a tensor's value back into Python, again and again.

Looks for:  `.item()`, `bool(tensor)`, `.tolist()` and the like inside a step, by line.
Matters:    on a GPU each one stops the host until the device has caught up; on a CPU each costs the call.
Try:        read the value once in a while, collect values and read them together, or compare on the device.
Not this:   logging that formats and writes (see `logging-cost`).
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Environment
from netdyno.records.evidence import Place, StepTimeline, SyncSite, SyncSites
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.02  # two per cent of a step: less is not worth an edit on a CPU, where nobody waits
STALLS = 0.5  # on a device, one read in every second step already breaks the queue of work


@rule(suggests=())
def hidden_syncs(sites: SyncSites, timeline: StepTimeline, environment: Environment | None) -> Finding | None:
    reads = sum(site.per_step for site in sites.sites)
    share = sites.seconds_per_step / timeline.step.own if timeline.step.own else 0.0
    stalls = on_device(environment) and reads >= STALLS
    if not sites.sites or (share < WORTH_A_WORD and not stalls):
        return None
    worst = max(sites.sites, key=lambda site: site.per_step)
    return Finding(
        says=f"{_lines(len(sites.sites))} read tensor values {reads:.3g} times a step, {share:.1%} of it; most often {_at(worst)}",
        layer="compute",
        saves=Saving(low=0.0, high=share),
        because={"reads_per_step": reads, "seconds_per_step": sites.seconds_per_step, "step_s": timeline.step.own},
        fix=f"take `{worst.call}` out of the step, or do it every hundredth step",
        where=worst.where,
    )


def on_device(environment: Environment | None) -> bool:
    """True when steps are queued on a device that the host can run ahead of."""
    return environment is not None and environment.device.startswith("cuda")


def _lines(count: int) -> str:
    return "one line" if count == 1 else f"{count} lines"


def _at(site: SyncSite) -> str:
    return f"`{site.call}` in {os.path.basename(site.where.file or '?')}:{site.where.line}"


def _case(*, per_step: float, seconds: float) -> tuple[SyncSites, StepTimeline]:
    site = SyncSite(where=Place(file="work.py", line=12), call=".item()", per_step=per_step)
    return (
        SyncSites(sites=(site,), seconds_per_step=seconds),
        StepTimeline(steps=10, step=Split(running=0.010), phases={"forward": Split(running=0.010)}),
    )


_GPU = Environment(
    id="",
    machine="",
    processor="",
    cores=2,
    memory_bytes=0,
    device="cuda:0",
    system="",
    python="3.11",
    torch="2.13.0",
    threads=2,
    seed=0,
)

SICK = (_case(per_step=40.0, seconds=0.0008), (*_case(per_step=1.0, seconds=0.0), _GPU))
# One cheap read on a CPU; none at all.
WELL = (
    _case(per_step=1.0, seconds=0.00001),
    (SyncSites(sites=()), StepTimeline(steps=10, step=Split(running=0.010), phases={})),
)
