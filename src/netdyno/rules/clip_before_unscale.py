"""Gradients are clipped while they are still multiplied by the loss scale.

Looks for:  a call that clips gradients between the scaled backward pass and `unscale_`.
Matters:    the norm is larger by the scale, so that every update is cut down to a scaled-down limit: the learning
            rate shrinks by up to the scale.
Try:        `scaler.unscale_(optimizer)` right before clipping.
Not this:   a scaler that is disabled, which multiplies by 1.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, UpdateOrder
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy


@rule(suggests=(), stage="order")
def clip_before_unscale(order: UpdateOrder) -> Finding | None:
    if not order.scaled_clips:
        return None
    return Finding(
        says=f"{order.scaled_clips} of {order.clips} times gradients were clipped while still multiplied by the loss scale",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={"scaled_clips": float(order.scaled_clips), "clips": float(order.clips)},
        fix="call `scaler.unscale_(optimizer)` before clipping",
        explains=("tiny-clip",),
        where=order.clip_where,
        remedies=remedy("unscale-before-clipping"),
    )


def _order(*, scaled: int, clips: int = 40) -> UpdateOrder:
    return UpdateOrder(
        updates=40,
        clips=clips,
        scaled_clips=scaled,
        clip_where=Place(file="train.py", line=33),
        scaler_steps=40,
    )


SICK = ((_order(scaled=40),),)
# Unscaled first; no clipping; no scaler, or one that is disabled.
WELL = ((_order(scaled=0),), (_order(scaled=0, clips=0),), (UpdateOrder(updates=40, clips=40),))
