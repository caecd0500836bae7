"""An optimizer steps with gradients that another one's loss left behind.

Looks for:  gradients that were there before another optimizer stepped, were not cleared, and were added to by the next
            backward pass.
Matters:    the discriminator's loss pulls the generator along: it learns to be recognised.
Try:        `.detach()` what the generator made before the discriminator judges it, or clear the generator's gradients before its
            own backward pass.
Not this:   gradients that are cleared in between; two losses before both steps; accumulation.
"""

from netdyno.records.calls import LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, losses
from netdyno.rules._remedies import remedy

OFTEN = 0.25  # of all steps looked at: with two players every second step is of each


@rule(stage="order")
def leaking_gradient(losses: LossCalls) -> Finding | None:
    if losses.crossed < 2 or losses.crossed < OFTEN * losses.steps:
        return None
    return Finding(
        says=f"in {losses.crossed} of {losses.steps} steps looked at an optimizer used gradients that another one's loss had left behind",
        layer="optimisation",
        saves=NOTHING,
        because={"crossed": float(losses.crossed), "steps": float(losses.steps)},
        fix="detach what the other model is given (`discriminator(fake.detach())`), or clear gradients before each backward pass",
        where=losses.crossed_where,
        confidence=LIKELY,
        remedies=remedy("clear-gradients", all=True),
    )


SICK = ((losses(crossed=4, steps=8),),)
# None; once.
WELL = ((losses(steps=8),), (losses(crossed=1, steps=8),))
