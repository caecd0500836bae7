"""Weights begin so small that nothing of the input reaches the output, and nothing of the error comes back.

Looks for:  matrices that shrink the size of their input tenfold and more, one after another, in a run whose loss stays
            where nothing is known for a good part of it.
Matters:    signals and gradients are multiplied by tiny numbers at each layer.
Try:        Kaiming or Xavier initialisation, or the default.
Not this:   one small last layer, residual branches that begin silent, or layers before a norm.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    chance_of,
    curve,
    learns_little,
    longest,
    matrices,
    seen,
    stepper_of,
    weight,
)
from netdyno.rules._remedies import remedy

SMALL = 0.1  # the default has about 0.6
MOST = 0.7  # of the matrices: small last layers of branches are in use, small everything is not
STUCK = 0.3  # of the run at chance
AT_CHANCE = 0.97
EQUAL = 1e-3


@rule(suggests=(), stage="structure")
def shrunken_initialisation(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or gradients.normalised:
        return None
    mixing = matrices(gradients, stepper)
    # Rows that are all equal have no deviation, whatever their size: that is another fault.
    small = [one for one in mixing if one.gain is not None and one.gain < SMALL and (one.row_spread_first or 0) > EQUAL]
    if len(small) < 2 or len(small) < MOST * len(mixing):
        return None
    chance = chance_of(course, stepper)
    # Not every update of a long run is heard.
    stuck = sum(one.count for one in course.bins if chance is not None and one.loss > AT_CHANCE * chance) / max(
        1, sum(one.count for one in course.bins)
    )
    if stuck < STUCK and not learns_little(course, stepper):
        return None
    first = min(small, key=lambda one: one.gain or 0.0)
    return Finding(
        says=f"{len(small)} of {len(mixing)} matrices begin with tiny weights (`{first.name}` shrinks a signal to {first.gain:.2g} of its"
        f" size), and the loss stays where nothing is known for {max(stuck, 0.0):.0%} of the run",
        layer="optimisation",
        saves=NOTHING,
        because={"gain": first.gain or 0.0, "layers": float(len(small)), "stuck": stuck},
        fix="initialise with `kaiming_normal_`, or leave the default",
        where=Place(module=first.name),
        confidence=0.9,
        explains=("vanishing-gradient",),
        remedies=remedy("initialise-again"),
    )


_SMALL = (weight(gain=1e-3), weight("fc2.weight", gain=1e-3), weight("head.weight", gain=1e-3))
SICK = ((seen(*_SMALL), curve(*STAYS)), (seen(*_SMALL), curve(2.3, 2.3, 2.3, 2.3, 1.2, 0.8, 0.4, 0.3)))
# It learns at once; one small layer; before norms.
WELL = (
    (seen(*_SMALL), curve(*FALLS)),
    (seen(weight(), weight("fc2.weight"), weight("head.weight", gain=1e-3)), curve(*STAYS)),
    (seen(*_SMALL, normalised=True), curve(*STAYS)),
)
