"""The model computes in double precision, and nothing of what it does needs it.

Looks for:  nearly all weights in float64, where operators with work to do take a part of an update that shows.
Matters:    a processor does half as many operations a second in float64, a graphics card a thirtieth, and every tensor
            is twice as large.
Try:        `torch.from_numpy(x).float()` or `x.astype("float32")` for the data, and no `.double()` for the model.
Not this:   second derivatives, line searches and LBFGS, errors that fall to where float32 ends, a default type that was
            declared for the whole script.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Op, OpTable, OptimizerUse, Place, ScriptTrace, StepTimeline
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

NEARLY = 0.9
# Half of a vector unit's width is lost; what operators save at most.
HALF = 0.5
# What the smallest operators take whatever they do, in any precision.
CALL_S = 2e-6
# A tenth of an update: less is not worth another precision.
WORTH_A_WORD = 0.10
# Losses that fell to a millionth are differences of numbers that float32 cannot tell apart.
FINE = 1e-6
WORK = ("forward", "loss", "backward", "optimizer")
PRECISE = ("LBFGS",)


@rule(suggests=())
def double_precision(waste: Waste, timeline: StepTimeline, table: OpTable, trace: ScriptTrace) -> Finding | None:
    if waste.float64_share < NEARLY or _needs(waste, trace):
        return None
    whole = table.operator_s + table.python_s
    working = sum(max(0.0, op.seconds - CALL_S * op.calls) for op in table.ops)
    high = HALF * timeline.share(*WORK) * (working / whole if whole else 0.0)
    if high < WORTH_A_WORD:
        return None
    return Finding(
        says=f"{waste.float64_share:.0%} of the weights are float64, and nothing was seen that needs it: arithmetic takes"
        f" {2 * high:.0%} of the time and could take half of that in float32",
        layer="compute",
        saves=Saving(low=high / 2, high=high),
        because={"float64_share": waste.float64_share, "working_s": working, "update_s": whole},
        fix="make the data float32 (`.float()`, `astype('float32')`) and drop `.double()`",
        where=waste.float64_where,
        confidence=0.8,
        explains=("compute-bound", "memory-bandwidth-bound", "optimizer-bound", "python-bound"),
        remedies=remedy("single-precision"),
    )


def _needs(waste: Waste, trace: ScriptTrace) -> bool:
    fine = waste.first_loss and waste.last_loss is not None and abs(waste.last_loss) < FINE * abs(waste.first_loss)
    derives = any("grad" in event.split() for event, _ in trace.events)
    searches = any(one.optimizer in PRECISE for one in trace.optimizers)
    return waste.float64_default or bool(fine) or derives or searches


def _case(
    *,
    share: float = 1.0,
    optimizer: str = "Adam",
    event: str = "zero_grad fwd bwd step0",
    working: float = 0.02,
    **fields: object,
) -> tuple[Waste, StepTimeline, OpTable, ScriptTrace]:
    known: dict[str, object] = {"first_loss": 1.0, "last_loss": 0.2, "float64_where": Place(file="train.py", line=14)}
    waste = Waste(updates=100, cores=2, threads=1, float64_share=share, **(known | fields))  # type: ignore[arg-type]
    step = Split(running=0.025)
    table = OpTable(
        ops=(Op(name="aten::mm", calls=100, seconds=working),), dispatches=100, operator_s=working, python_s=0.003
    )
    trace = ScriptTrace(
        attached="",
        processes=1,
        updates=100,
        counted_by="optimizer",
        cycle=1,
        events=((event, 90),),
        optimizers=(OptimizerUse(index=0, optimizer=optimizer, steps=100),),
        span_s=20.0,
        own_s=0.0,
        unattributed=0.0,
    )
    return waste, StepTimeline(steps=100, step=step, phases={"forward": step}), table, trace


SICK = (_case(),)
# Single precision; LBFGS; a derivative of the model; a residual of a billionth; declared for all; a net that is all calls.
WELL = (
    _case(share=0.0),
    _case(optimizer="LBFGS"),
    _case(event="zero_grad fwd grad bwd step0"),
    _case(last_loss=1e-9),
    _case(float64_default=True),
    _case(working=0.0003),
)
