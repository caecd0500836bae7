"""Gradients are never cleared: every update applies the sum of all before it.

Looks for:  an optimizer before whose backward passes gradients were neither None nor zero, each time somebody looked.
Matters:    updates grow and point into the past; the loss falls, then rises.
Try:        `optimizer.zero_grad()` before the backward pass.
Not this:   gradients that are cleared by hand or after the step, that another loss leaves in a network of a GAN until its
            own optimizer clears them, or that are summed over micro-batches on purpose.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import UpdateOrder
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

UPDATES = 5  # the first update has nothing to clear, and a loop that clears every other time is an accumulation


@rule(suggests=(), stage="order")
def uncleared_gradients(order: UpdateOrder, gradients: Gradients | None = None) -> Finding | None:
    if not order.never_cleared or order.updates < UPDATES:
        return None
    return Finding(
        says=f"gradients were never cleared in {order.updates} updates: each applies the sum of all before it",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={"updates": float(order.updates)},
        fix="call `optimizer.zero_grad()` before each backward pass",
        where=gradients.backward_where if gradients is not None else None,
        confidence=0.9,  # somebody may sum gradients over the whole run on purpose
        remedies=remedy("clear-gradients"),
    )


SICK = ((UpdateOrder(updates=40, never_cleared=True),),)
# Cleared at some time between two steps of their own optimizer, by whatever call, as also in a GAN and in accumulation;
# too short a look.
WELL = ((UpdateOrder(updates=40),), (UpdateOrder(updates=3, never_cleared=True),))
