"""Python goes through the samples of a batch one by one.

Looks for:  values read, or operators called, as many times in each update as the batch has samples, where that takes a
            tenth of the time, or calls a fifth.
Matters:    each call costs some microseconds whatever it works on, and a device waits for every value that is read.
Try:        one operator for the whole batch: `argmax(1)`, `bincount`, boolean masks, `einsum`; read one number at the end.
Not this:   recurrence, which goes through time steps; a loader that makes samples one by one (see `input-bound`).
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import GAP, LineCost, LineCosts, Op, OpTable, Place, StepTimeline, SyncSite, SyncSites
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule

# A batch of fewer samples may be anything: layers, heads, steps of time.
BATCH = 16
# Smaller last batches make it a little less on average.
NEARLY = 0.85
WORTH_A_WORD = 0.20  # calls of operators are counted, and their time is an estimate
READS_WORTH_A_WORD = 0.10  # the sampler met the lines of the loop
# What takes single samples out of a batch.
TAKES = ("aten::select", "aten::slice", "aten::unbind", "aten::split")


WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=())
def per_sample_loop(
    waste: Waste, timeline: StepTimeline, sites: SyncSites | None, table: OpTable | None, lines: LineCosts | None
) -> Finding | None:
    if waste.batch is None or waste.batch < BATCH:
        return None
    return _reads(waste, timeline, sites, lines) or _calls(waste, timeline, table, lines)


def _reads(waste: Waste, timeline: StepTimeline, sites: SyncSites | None, lines: LineCosts | None) -> Finding | None:
    if sites is None or lines is None or not lines.samples:
        return None
    batch = waste.batch or 0
    each = [one for one in sites.sites if one.per_step >= NEARLY * batch * _batches(waste)]
    if not each:
        return None
    worst = max(each, key=lambda one: one.per_step)
    loop = _around(worst.where, each, lines)
    share = sum(one.samples for one in loop) / lines.samples
    if share < READS_WORTH_A_WORD:
        return None
    reads = sum(one.per_step for one in each)
    return Finding(
        says=f"a loop over the samples of a batch takes {share:.0%} of the time: it reads {reads:.0f} values in each update, one by one,"
        f" for a batch of {batch} ({os.path.basename(worst.where.file or '?')}:{worst.where.line})",
        layer="compute",
        saves=Saving(low=share / 2, high=share),
        because={"reads_per_update": reads, "batch": float(batch), "share": share, "update_s": timeline.step.own},
        fix="compute it for the whole batch at once, and read one number at the end",
        where=worst.where,
        confidence=0.9,
        explains=("hidden-syncs", "costly-line", "python-bound"),
    )


def _around(where: Place, sites: list[SyncSite], lines: LineCosts) -> list[LineCost]:
    """Lines of the loop: those that read, and their neighbours in gaps, up to three lines off."""
    rows = {site.where.line or 0 for site in sites if site.where.file == where.file}
    return [
        one
        for one in lines.lines
        if one.where.file == where.file
        and (one.phase == "sync" or one.phase.startswith(GAP))
        and any(abs((one.where.line or 0) - row) <= 3 for row in rows)
    ]


def _calls(
    waste: Waste, timeline: StepTimeline, table: OpTable | None, lines: LineCosts | None = None
) -> Finding | None:
    batch = waste.batch or 0
    # A sequence as long as the batch is wide is gone through step by step with as many calls.
    if table is None or batch in waste.sizes or not table.dispatches:
        return None
    taken = sum(op.calls for op in table.ops if op.name in TAKES)
    least = NEARLY * batch * _batches(waste)
    many = [op for op in table.ops if op.calls >= least and op.name not in TAKES and _times(op.calls, batch)]
    calls = sum(op.calls for op in many) + taken
    if taken < least or len(many) < 2 or calls < table.dispatches / 2:
        return None
    part = calls / table.dispatches
    share = timeline.share(*WORK) * part * (1 - 2 / batch)
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"operators are called once for each sample: {calls:.0f} of {table.dispatches:.0f} calls in an update come in multiples of"
        f" the batch's {batch} samples, as of a loop in Python",
        layer="compute",
        saves=Saving(low=share / 3, high=share),
        because={"calls": calls, "dispatches": table.dispatches, "batch": float(batch)},
        fix="give the whole batch to each operator instead of a sample at a time",
        where=_costliest(lines),
        confidence=0.8,
        explains=("python-bound", "costly-line", "optimizer-bound"),
    )


def _costliest(lines: LineCosts | None) -> Place | None:
    """The line of the forward pass that was met most often: most calls are the loop's."""
    met = lines.of("forward") if lines is not None else ()
    return met[0].where if met else None


def _batches(waste: Waste) -> float:
    """Batches per update: where gradients are accumulated, each of them is read from and gone through."""
    return max(1.0, waste.passes / waste.updates) if waste.updates else 1.0


def _times(calls: float, batch: int) -> bool:
    """Whether calls come in multiples of the batch, give or take one that is for all."""
    return min(calls % batch, batch - calls % batch) <= 3


def _timeline() -> StepTimeline:
    step = Split(running=0.01)
    return StepTimeline(steps=100, step=step, phases={"forward": step})


def _read(per_step: float, samples: int, *, passes: int = 100) -> tuple[Waste, StepTimeline, SyncSites, LineCosts]:
    where = Place(file="train.py", line=22)
    line = LineCost(where=where, function="main", phase="sync", samples=samples, share=samples / 100)
    return (
        Waste(updates=100, cores=2, threads=1, batch=128, passes=passes),
        _timeline(),
        SyncSites(sites=(SyncSite(where=where, call=".item()", per_step=per_step),)),
        LineCosts(lines=(line,), samples=100, hz=50),
    )


def _loop(batch: int, *, sizes: tuple[int, ...] = (), times: int = 64) -> tuple[Waste, StepTimeline, OpTable]:
    names = ("aten::select", "aten::mv", "aten::add", "aten::relu")
    ops = (*(Op(name=name, calls=times, seconds=1e-4) for name in names), Op(name="aten::mm", calls=20, seconds=1e-4))
    table = OpTable(ops=ops, dispatches=4 * times + 20, operator_s=5e-4, python_s=5e-3)
    return Waste(updates=100, cores=2, threads=1, batch=batch, sizes=sizes), _timeline(), table


SICK = (_read(128.0, 60), _loop(64))
# One read in each of many batches that make an update; one read an update; reads that take no time; time steps; a sequence as long as the batch; a batch of few.
WELL = (
    _read(128.0, 60, passes=12800),
    _read(1.0, 60),
    _read(128.0, 2),
    _loop(50),
    _loop(64, sizes=(64,)),
    _loop(4, times=4),
)
