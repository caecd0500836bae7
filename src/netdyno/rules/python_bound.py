"""Python and the dispatcher are the limit: many small operators, each done sooner than it is called.

Looks for:  steps of which a fifth or more goes to calling operators: time outside of them, and the first
            two microseconds inside each.
Matters:    neither a faster processor for tensors nor a lower precision helps an operator that is mostly call.
Try:        a compiled model (one call for many operators), a larger batch, a foreach or fused optimizer.
Not this:   time in the data path, which is Python's too (see `input-bound`), or values that are read back
            into Python (see `hidden-syncs`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Op, OpTable, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.20  # calling operators always costs something; below a fifth compiling seldom pays for itself
# The smallest operators take 1 to 3 µs each whatever they do: checks, allocation, the way through the dispatcher.
CALL_S = 2e-6
# Module, dispatcher and gradient graph take 5 to 100 µs around an operator. What is beyond that is no call of one: Python
# that computes by itself, or a library that PyTorch does not see.
MOST_S = 200e-6
WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=("compile-model", "foreach-optimizer", "fused-optimizer", "batch-size"), stage="nature")
def python_bound(timeline: StepTimeline, table: OpTable) -> Finding | None:
    whole = table.python_s + table.operator_s
    if not whole:
        return None
    calling = min(table.python_s, MOST_S * table.dispatches) + sum(
        min(op.seconds, CALL_S * op.calls) for op in table.ops
    )
    part = calling / whole
    share = timeline.share(*WORK) * part
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"calling operators takes {share:.0%} of a step: {table.dispatches:.0f} calls, {calling / max(table.dispatches, 1) * 1e6:.1f} µs each",
        layer="compute",
        saves=Saving(low=0.0, high=share),
        because={
            "outside_operators_s": table.python_s,
            "calling_s": calling,
            "operator_s": table.operator_s,
            "dispatches": table.dispatches,
        },
        fix="make fewer and larger calls: compile the model, or raise the batch size",
        # Where most of all work is calls, an optimizer that takes long is the same sickness once more.
        explains=("optimizer-bound",) if part > 0.5 else (),
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


# Much Python; little of it, but operators that do next to nothing.
SICK = (_case(python=0.004, operators=0.004, calls=400), _case(python=0.0, operators=0.004, calls=2000))
# Little Python and operators with work to do; much Python that cannot be three calls.
WELL = (_case(python=0.0005, operators=0.010, calls=100), _case(python=0.015, operators=0.001, calls=3))
