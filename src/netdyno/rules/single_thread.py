"""The script asks for one thread, though its operators are large and cores are free.

Looks for:  `torch.set_num_threads(1)` in a single process that may use several cores, where most of an update goes to
            operators that take long enough to be shared between threads.
Matters:    the other cores stand still.
Try:        leave the number of threads to PyTorch.
Not this:   small operators, which threads make slower; several processes or loader workers, which share the cores; one
            thread asked for from outside.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LoaderUse, Op, OpTable, Place, StepTimeline, ThreadUse
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Waking a thread takes some ten microseconds: an operator of this length wins by being shared.
LONG_S = 300e-6
WORTH_A_WORD = 0.4
# Cores that others use are no gain.
FREE = 1.5
WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=("threads",))
def single_thread(
    waste: Waste, timeline: StepTimeline, table: OpTable, use: ThreadUse | None, loaders: LoaderUse | None
) -> Finding | None:
    if waste.threads_set != 1 or waste.threads != 1 or waste.cores < 2:
        return None
    if loaders is not None and any(one.workers for one in loaders.loaders):
        return None
    free = waste.cores * (1 - (use.others_share if use is not None else 0.0))
    whole = table.operator_s + table.python_s
    long = sum(op.seconds for op in table.ops if op.calls and op.seconds / op.calls >= LONG_S)
    share = timeline.share(*WORK) * (long / whole if whole else 0.0)
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"one thread was asked for where {waste.cores} cores may be used, and {share:.0%} of the time goes to operators long enough"
        " to be shared",
        layer="compute",
        saves=Saving(low=0.0, high=share * (1 - 1 / waste.cores)),
        because={"cores": float(waste.cores), "share": share, "free_cores": free},
        fix="take `torch.set_num_threads(1)` out",
        where=waste.threads_where,
        # On a machine that is busy the other cores are somebody else's.
        confidence=0.75 if free >= FREE else 0.5,
        explains=("compute-bound",),
        remedies=remedy("set-threads", threads=waste.cores),
    )


def _case(*, asked: int | None = 1, cores: int = 4, each: float = 0.002) -> tuple[Waste, StepTimeline, OpTable]:
    step = Split(running=0.022)
    calls = 0.02 / each
    table = OpTable(
        ops=(Op(name="aten::mm", calls=calls, seconds=0.02),), dispatches=calls, operator_s=0.02, python_s=0.002
    )
    waste = Waste(updates=100, cores=cores, threads=1, threads_set=asked, threads_where=Place(file="train.py", line=7))
    return waste, StepTimeline(steps=100, step=step, phases={"forward": step}), table


SICK = (_case(),)
# Asked for from outside; one core; small operators.
WELL = (_case(asked=None), _case(cores=1), _case(each=0.00002))
