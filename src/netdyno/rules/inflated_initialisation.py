"""Weights begin so large that the first answers are wildly wrong.

Looks for:  matrices that multiply the size of their input, no layer that normalises, and a first loss many times that of
            knowing nothing.
Matters:    the run spends its time shrinking weights; gates saturate, units die.
Try:        Kaiming or Xavier initialisation, or the default.
Not this:   large weights before a norm layer, a checkpoint, or data that are not scaled.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, chance_of, curve, longest, matrices, seen, stepper_of, weight
from netdyno.rules._remedies import remedy

LARGE = 3.0  # twice what the most generous scheme in use has (gain 1.41 for ReLU)
WILD = 3.0  # a sound start is at chance, and rarely above one and a half times


@rule(suggests=(), stage="structure")
def inflated_initialisation(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    chance = chance_of(course, stepper) if course is not None else None
    if course is None or stepper is None or chance is None or course.first is None or course.first < WILD * chance:
        return None
    large = [one for one in matrices(gradients, stepper) if (one.gain or 0) > LARGE]
    if len(large) < 2 or gradients.normalised:
        return None
    worst = max(large, key=lambda one: one.gain or 0.0)
    return Finding(
        says=f"`{worst.name}` begins with weights that multiply a signal's size by {worst.gain:.3g}, and {len(large) - 1} more"
        f" do so too: the first loss is {course.first:.3g}, where knowing nothing gives {chance:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"gain": worst.gain or 0.0, "layers": float(len(large)), "first_loss": course.first, "chance": chance},
        fix="initialise with `kaiming_normal_` (or leave the default), whose deviation is about the root of 2 over the inputs",
        where=Place(module=worst.name),
        confidence=0.9,
        explains=("exploding-learning-rate",),
        remedies=remedy("initialise-again"),
    )


_LARGE = (weight(gain=9.0), weight("fc2.weight", gain=9.8), weight("head.weight", gain=9.8))
SICK = ((seen(*_LARGE), curve(300.0, 90.0, 20.0, 5.0, 2.4, 2.3)),)
# Sound weights; large ones before a norm; large ones that start at chance; data that are not scaled.
WELL = (
    (seen(), curve(2.3, 1.0, 0.4)),
    (seen(*_LARGE, normalised=True), curve(9.0, 1.0, 0.4)),
    (seen(*_LARGE), curve(2.4, 1.0, 0.4)),
    (seen(), curve(90.0, 9.0, 2.0)),
)
