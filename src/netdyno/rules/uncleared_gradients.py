"""Gradients are never cleared: every update applies the sum of all before it.

Looks for:  an optimizer before whose backward passes gradients were found to be neither None nor zero, each time
            anybody looked.
Matters:    updates grow and point into the past; the loss falls, then rises.
Try:        `optimizer.zero_grad()` before the backward pass.
Not this:   gradients that are cleared by hand or after the step, that another loss leaves in a network of a GAN until its
            own optimizer clears them, or that are summed over micro-batches on purpose.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import OptimizerUse, Place, ScriptTrace
from netdyno.rules._base import rule

LOOKS = 5  # the first update has nothing to clear, and a loop that clears every other time is an accumulation


@rule(suggests=())
def uncleared_gradients(trace: ScriptTrace) -> Finding | None:
    worst = max((one for one in trace.optimizers if _never(one)), key=lambda one: one.checked, default=None)
    if worst is None:
        return None
    return Finding(
        says=f"gradients of {worst.optimizer} were never cleared in {worst.checked} updates that were looked at",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={"looked_at": float(worst.checked), "uncleared": float(worst.uncleared), "steps": float(worst.steps)},
        fix="call `optimizer.zero_grad()` before each backward pass",
        where=worst.where,
    )


def _never(one: OptimizerUse) -> bool:
    return one.checked >= LOOKS and one.uncleared == one.checked and not one.accumulates


def _trace(*optimizers: OptimizerUse, event: str = "data fwd bwd step0") -> ScriptTrace:
    return ScriptTrace(
        attached="sitecustomize",
        processes=1,
        updates=40,
        counted_by="optimizer",
        cycle=len(optimizers),
        events=((event, 40),),
        optimizers=optimizers,
        span_s=4.0,
        own_s=0.01,
        unattributed=0.01,
    )


def _optimizer(*, uncleared: int, checked: int = 39, index: int = 0, accumulates: bool = False) -> OptimizerUse:
    return OptimizerUse(
        index=index,
        optimizer="SGD",
        steps=40,
        checked=checked,
        uncleared=uncleared,
        accumulates=accumulates,
        where=Place(file="train.py", line=14),
    )


SICK = ((_trace(_optimizer(uncleared=39)),),)
# Cleared; a GAN, whose generator's loss leaves gradients in the discriminator until that is cleared; accumulation over
# micro-batches; nothing looked at, as with optimizers that nobody knows; cleared by hand now and then.
WELL = (
    (_trace(_optimizer(uncleared=0)),),
    (_trace(_optimizer(uncleared=0), _optimizer(uncleared=0, index=1), event="zero_grad fwd bwd step0 zero_grad"),),
    (_trace(_optimizer(uncleared=10, checked=10, accumulates=True), event="fwd bwd fwd bwd step0"),),
    (_trace(),),
    (_trace(_optimizer(uncleared=3)),),
)
