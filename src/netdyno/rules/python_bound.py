"""Python and the dispatcher are the limit: many small operators, each done sooner than it is called.

Looks for:  steps in which time outside operators takes a fifth or more while the mean operator lasts
            less than a twentieth of a millisecond.
Matters:    neither a faster processor for tensors nor a lower precision helps an operator that is mostly call.
Try:        a compiled model (one call for many operators), a larger batch, a foreach or fused optimizer.
Not this:   time spent reading values back into Python (see `hidden-syncs`) or in the data path
            (see `input-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Op, OpTable, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.20  # calling operators always costs something; below a fifth compiling seldom pays for itself
SMALL_S = 50e-6  # calling one operator with autograd costs 5 to 15 µs; ten times that hides it


@rule(suggests=("compile-model", "foreach-optimizer", "fused-optimizer", "batch-size"))
def python_bound(timeline: StepTimeline, table: OpTable) -> Finding | None:
    if not table.dispatches or not timeline.step.own:
        return None
    mean = table.operator_s / table.dispatches
    called = timeline.share("forward", "loss", "backward", "optimizer")
    outside = table.python_s / (table.python_s + table.operator_s)
    share = called * outside
    if share < WORTH_A_WORD or mean > SMALL_S:
        return None
    return Finding(
        says=f"calling operators takes {share:.0%} of a step: {table.dispatches:.0f} of them, {mean * 1e6:.0f} µs each",
        layer="compute",
        saves=Saving(low=0.0, high=share),
        because={
            "outside_operators_s": table.python_s,
            "operator_s": table.operator_s,
            "dispatches": table.dispatches,
            "mean_operator_s": mean,
        },
        fix="make fewer and larger calls: compile the model, or raise the batch size",
    )


def _case(*, python: float, operators: float, calls: float) -> tuple[StepTimeline, OpTable]:
    step = Split(running=python + operators)
    table = OpTable(
        ops=(Op(name="aten::add", calls=calls, seconds=operators),),
        dispatches=calls,
        operator_s=operators,
        python_s=python,
    )
    return StepTimeline(steps=10, step=step, phases={"forward": step}), table


SICK = (_case(python=0.004, operators=0.004, calls=400),)
# Few calls; long operators beside as much Python.
WELL = (_case(python=0.0005, operators=0.004, calls=400), _case(python=0.050, operators=0.050, calls=100))
