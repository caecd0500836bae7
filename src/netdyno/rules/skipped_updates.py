"""Updates are thrown away because their gradients hold infinities or NaN.

Looks for:  steps that the gradient scaler left out after it had found a scale that works, or more of them in a row
            than any search for one takes.
Matters:    a whole step was computed for nothing, and a scale that keeps falling ends in gradients of zero.
Try:        look for the operation that overflows in float16 (bfloat16 has the range of float32), a lower rate, clipping.
Not this:   the few steps at the start in which the scaler halves its first scale until nothing overflows.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import UpdateOrder
from netdyno.rules._base import rule
from netdyno.stats.shares import counted_share

# A scaler begins at 2**16 and halves: sixteen steps later it multiplies by one, and what overflows then does so itself.
HALVINGS = 16
# A healthy run loses one step in two thousand, when the scale is tried twice as large. Two per cent is far beyond it.
HEALTHY = 0.02
ERROR = 0.05


@rule(suggests=(), stage="order")
def skipped_updates(order: UpdateOrder) -> Finding | None:
    if not order.scaler_steps:
        return None
    late = counted_share(order.skipped_late, order.scaler_steps, level=1 - ERROR)
    if order.skipped <= HALVINGS and late.low < HEALTHY:
        return None
    share = order.skipped / order.scaler_steps
    return Finding(
        says=f"{order.skipped} of {order.scaler_steps} updates were thrown away: their gradients held infinities or NaN",
        layer="optimisation",
        saves=Saving(low=0.0, high=share),  # a step that is thrown away was computed in full
        because={
            "skipped": float(order.skipped),
            "skipped_late": float(order.skipped_late),
            "scaler_steps": float(order.scaler_steps),
        },
        fix="find the operation that overflows in float16, or use bfloat16, which needs no scaler",
    )


def _order(*, skipped: int, late: int, steps: int = 60) -> UpdateOrder:
    return UpdateOrder(
        updates=steps - skipped,
        scaler_steps=steps,
        skipped=skipped,
        skipped_late=late,
    )


# Every step; every tenth one, again and again.
SICK = ((_order(skipped=60, late=0),), (_order(skipped=6, late=6),))
# The search for a scale; one trial of a larger scale; a disabled scaler, whose steps are not counted.
WELL = ((_order(skipped=5, late=0),), (_order(skipped=3, late=1),), (UpdateOrder(updates=60),))
