"""Gradients shrink layer by layer on their way to the input, and the model does not learn.

Looks for:  five and more matrices whose gradients fall steadily, a hundredfold and more, from the last to the first, in a
            run that learnt little.
Matters:    the early layers stay random, and whatever stands on them has nothing to work with.
Try:        ReLU or GELU instead of sigmoid, residual connections, norm layers, or another initialisation.
Not this:   a ratio like that in a run that learns, small gradients everywhere (a matter of scale), or frozen layers.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    curve,
    ends,
    learns_little,
    longest,
    matrices,
    seen,
    stepper_of,
    vanishing,
    weight,
)
from netdyno.rules._remedies import remedy

FALL = 100.0  # healthy networks without norms stay within ten


@rule(suggests=(), stage="structure")
def vanishing_gradient(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or not learns_little(course, stepper):
        return None
    mixing = matrices(gradients, stepper)
    fall = vanishing(mixing)
    if fall is None or fall < FALL:
        return None
    at = ends(course)
    return Finding(
        says=f"the gradient of `{mixing[0].name}` is {fall:.2g} times smaller than that of `{mixing[-1].name}`, {len(mixing)} layers above,"
        f" and the loss went from {at.start:.3g} to {at.last:.3g}: it vanishes on its way",
        layer="optimisation",
        saves=NOTHING,
        because={"fall": fall, "layers": float(len(mixing)), "first_loss": at.start, "last_loss": at.last},
        fix="replace sigmoid or tanh by ReLU, or add residual connections or norm layers",
        where=Place(module=mixing[len(mixing) // 2].name),  # it vanishes in the middle, not where it has vanished
        confidence=0.85,
        explains=("learning-rate-too-low",),
        remedies=remedy("norm-between-layers"),
    )


_DEEP = tuple(weight(f"layers.{n}.weight", gradient=10.0 ** (n - 9)) for n in range(10))
SICK = ((seen(*_DEEP), curve(*STAYS)),)
# It learns; tiny everywhere; three layers only.
WELL = (
    (seen(*_DEEP), curve(*FALLS)),
    (seen(*(weight(f"layers.{n}.weight", gradient=1e-9) for n in range(10))), curve(*STAYS)),
    (seen(*_DEEP[-3:]), curve(*STAYS)),
)
