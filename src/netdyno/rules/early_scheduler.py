"""The learning rate is scheduled before the optimizer has stepped, so that its first value is skipped.

Looks for:  PyTorch's own warning that `lr_scheduler.step()` came before `optimizer.step()`.
Matters:    the first learning rate of the schedule is never used, and every later one comes a step too early.
Try:        `scheduler.step()` after `optimizer.step()`.
Not this:   a gradient scaler that left out the first step because of infinities, which gives the same warning.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, UpdateOrder, Warned, Warnings
from netdyno.rules._base import rule

WORDS = "lr_scheduler.step()` before `optimizer.step()"


@rule(stage="order")
def early_scheduler(warnings: Warnings, order: UpdateOrder | None) -> Finding | None:
    warned = next((one for one in warnings.warnings if WORDS in one.message), None)
    if warned is None or (order is not None and order.skipped):
        return None
    return Finding(
        says="`scheduler.step()` came before the first `optimizer.step()`: the schedule runs 1 step ahead, and its first learning rate is never used",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),
        because={"warnings": float(warned.times)},
        fix="call `scheduler.step()` after `optimizer.step()`",
        where=warned.where,
        confidence=0.9,
    )


def _warned(message: str) -> Warnings:
    return Warnings(warnings=(Warned(category="UserWarning", message=message, where=Place(file="train.py", line=60)),))


EARLY = "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite order"
SICK = ((_warned(EARLY),),)
# Another warning; a scaler that skipped the first step.
WELL = (
    (_warned("To copy construct from a tensor, it is recommended"),),
    (_warned(EARLY), UpdateOrder(updates=100, scaler_steps=100, skipped=1)),
)
