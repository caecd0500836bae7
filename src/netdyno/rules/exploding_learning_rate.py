"""Steps are so long that they throw the weights about: the loss leaps, breaks or sticks.

Looks for:  steps that are a large part of the weights' own size, in a run whose loss breaks, ends far above its start, or
            leapt up and then stays where nothing is known.
Matters:    what was initialised with care is lost in a few updates; units die and never come back.
Try:        a tenth of the learning rate, a warm-up, or clipping.
Not this:   a high rate that learns (with layers that normalise, weights may grow and turn), weights that began far too
            large (see `inflated-initialisation`), sums of micro-batches (see `undivided-accumulation`), or gradients that
            nobody clears (see `uncleared-gradients`).
"""

from math import log10

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import UpdateOrder
from netdyno.records.learning import Course, Gradients, LossCurve, Stepper
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    AS_IT_IS,
    FALLS,
    NOTHING,
    STAYS,
    chance_of,
    course,
    curve,
    diverged,
    ends,
    group,
    learns_little,
    longest,
    matrices,
    middle,
    reference,
    seen,
    stepper,
    stepper_of,
    weight,
)
from netdyno.rules._remedies import remedy

# A tenth of a weight in one step: nothing of it is left after ten. Rates that learn lie near a thousandth to a fiftieth.
LONG = 0.1
USUAL = 0.01  # a first step of Adam at its default rate moves a usual weight by about a hundredth
LEAP = 2.0  # twice the loss of knowing nothing is worse than any start from a sound initialisation
TAIL, NORMS = 20.0, 4  # as in `exploding-gradient`, which then has the word
WILD = 5.0  # a first loss of so many times chance says that the weights or the data were too large, not the steps


@rule(suggests=(), stage="settings")
def exploding_learning_rate(gradients: Gradients, curve: LossCurve, order: UpdateOrder | None = None) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or (order is not None and order.never_cleared):
        return None
    ratio = _ratio(gradients, stepper)
    if ratio is None or ratio < LONG or _other(course, stepper) or _rare(gradients, stepper):
        return None
    at = ends(course)
    # What one player of two wins the other loses: of several optimizers only a loss that breaks counts.
    broke = diverged(course) and (len(curve.courses) == 1 or course.broke is not None)
    leapt = len(curve.courses) == 1 and at.highest > LEAP * reference(course, stepper)
    if not broke and not (learns_little(course, stepper) and leapt):
        return None
    how = _how(course, broke)
    return Finding(
        says=f"the first steps move weights by {ratio:.0%} of their size, and the loss {how}: the learning rate of"
        f" {stepper.groups[0].lr_most:g} is too high",
        layer="optimisation",
        saves=NOTHING,
        because={
            "step": ratio,
            "rate": stepper.groups[0].lr_most,
            "first_loss": at.start,
            "highest_loss": at.highest,
            "last_loss": at.last,
        },
        fix="lower the learning rate tenfold, or warm it up",
        where=gradients.optimizer_where,
        confidence=0.9 if broke else 0.8,
        remedies=remedy("scale-learning-rate", factor=_factor(ratio)),
    )


def _factor(ratio: float) -> float:
    """The power of ten that makes steps about as long as those of a run that learns."""
    return float(10.0 ** min(-1, max(-4, round(log10(USUAL / ratio)))))


def _how(course: Course, broke: bool) -> str:
    at = ends(course)
    if course.broke is not None:
        return f"is no number from update {course.broke} on"
    return f"{'rose' if broke else 'leapt'} from {at.start:.3g} to {at.highest:.3g} and ended at {at.last:.3g}"


def _ratio(gradients: Gradients, stepper: Stepper) -> float | None:
    mixing = matrices(gradients, stepper)
    return middle([max(one.ratio_first or 0.0, one.ratio or 0.0) for one in mixing if one.ratio_first is not None])


def _other(course: Course, stepper: Stepper) -> bool:
    """Whether something else explains it."""
    chance = chance_of(course, stepper)
    wild = chance is not None and course.first is not None and course.first > WILD * chance
    summed = stepper.backwards > 1 and stepper.divided is not None and abs(stepper.divided - 1) < AS_IT_IS
    heavy = stepper.decay is not None and stepper.decay > 1
    slow = any((one.momentum or 0) > 0.98 for one in stepper.groups)
    return wild or summed or heavy or slow


def _rare(gradients: Gradients, stepper: Stepper) -> bool:
    """Whether a recurrent network's usual gradients are fine and a few are not: these want a clip (see `exploding-gradient`)."""
    usual = middle(stepper.norms)
    unclipped = gradients.recurrent and not gradients.clips and len(stepper.norms) >= NORMS
    return unclipped and bool(usual) and max(stepper.norms) >= TAIL * (usual or 0.0)


_FAR = (weight(ratio_first=0.9, ratio=0.3), weight("head.weight", ratio_first=0.6, ratio=0.2))
SICK = (
    (seen(*_FAR), curve(2.31, 40.0, 9000.0, broke=30, last_finite=False)),
    (seen(*_FAR), curve(2.31, 40.0, *STAYS)),
    (seen(*_FAR), curve(0.9, 40.0, 90.0, 300.0, chance=None)),
)
# Long steps that learn, as with batch norm; a recurrent network with rare large gradients; short ones; weights that were too large; nobody clears; sums of micro-batches;
# a loss that sticks without a leap has other causes; one of two players; long momentum.
WELL = (
    (seen(*_FAR), curve(*FALLS)),
    (
        seen(*_FAR, steppers=(stepper(norms=(0.5, 0.6, 0.5, 40.0, 0.7)),), recurrent=True),
        curve(2.31, 40.0, *STAYS),
    ),
    (seen(), curve(2.3, 2.4, 6.0, 7.0)),
    (seen(*_FAR), curve(60.0, 300.0, 900.0, 2000.0)),
    (seen(*_FAR), curve(2.31, 40.0, 9000.0), UpdateOrder(updates=400, never_cleared=True)),
    (seen(*_FAR, steppers=(stepper(backwards=8),)), curve(2.3, 6.0, 9.0, 12.0, summed=8)),
    (seen(*_FAR), curve(*STAYS)),
    (seen(*_FAR), LossCurve(courses=(course(0.7, 0.9, 1.8, 3.0, chance=None), course(1.4, 0.9, 0.4, optimizer=1)))),
    (seen(*_FAR, steppers=(stepper(group(momentum=0.999)),)), curve(2.3, 6.0, 9.0, 12.0)),
)
