"""Batches are so small that an update is nearly all overhead.

Looks for:  batches of four samples or fewer, out of hundreds to a pass, where calling operators takes half of a step.
Matters:    a batch four times as large takes about as long, so that a pass takes a quarter of the time.
Try:        a larger batch, and a learning rate to go with it.
Not this:   models that are so large that four samples keep the cores busy; noise that was chosen on purpose, which only a
            run with another batch size can tell: this is always a suspicion.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Op, OpTable, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

TINY, MANY = 4, 200
HALF = 0.5
CALL_S, MOST_S = 2e-6, 200e-6  # as in `python-bound`
WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=("batch-size",))
def tiny_batch(use: LoaderUse, timeline: StepTimeline, table: OpTable) -> Finding | None:
    tiny = next((one for one in use.loaders if _tiny(one)), None)
    whole = table.operator_s + table.python_s
    if tiny is None or not whole:
        return None
    calling = min(table.python_s, MOST_S * table.dispatches) + sum(
        min(op.seconds, CALL_S * op.calls) for op in table.ops
    )
    share = timeline.share(*WORK) * calling / whole
    if share < HALF:
        return None
    return Finding(
        says=f"batches of {tiny.batch_size} make {tiny.batches_per_pass} updates to a pass, and calling operators takes {share:.0%} of each,"
        " whatever the batch",
        layer="compute",
        saves=Saving(low=0.0, high=share),
        because={
            "batch_size": float(tiny.batch_size or 0),
            "batches": float(tiny.batches_per_pass or 0),
            "calling_share": share,
        },
        fix="try a batch of 32 with a learning rate to match",
        where=tiny.where,
        confidence=0.5,
    )


def _tiny(one: Loader) -> bool:
    return one.trains and 0 < (one.batch_size or 0) <= TINY and (one.batches_per_pass or 0) >= MANY


def _case(batch: int, python: float = 0.003) -> tuple[LoaderUse, StepTimeline, OpTable]:
    loader = Loader(
        where=Place(file="train.py", line=30),
        dataset="Digits",
        trains=True,
        iterable=False,
        batch_size=batch,
        batches_per_pass=1400 // batch,
        sampler="RandomSampler",
        ordered=False,
        own_order=False,
        workers=0,
    )
    step = Split(running=0.001 + python)
    table = OpTable(
        ops=(Op(name="aten::mm", calls=80, seconds=0.001),), dispatches=80, operator_s=0.001, python_s=python
    )
    use = LoaderUse(loaders=(loader,), span_s=5.0)
    return use, StepTimeline(steps=100, step=step, phases={"forward": step}), table


SICK = (_case(2),)
WELL = (_case(64), _case(2, python=0.0001))
