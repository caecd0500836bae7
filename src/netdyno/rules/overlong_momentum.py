"""Momentum remembers more updates than the run can use: the loss swings instead of settling.

Looks for:  a momentum whose memory spans a good part of the run, with a loss that breaks, ends no better than it began, or
            rises again and again by far more than its noise.
Matters:    each step follows gradients of long ago; the run overshoots, comes back, and overshoots.
Try:        0.9.
Not this:   high momentum in a long run that learns, and beta2 of Adam, which is meant to be near one.
"""

from itertools import pairwise

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Course, Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    curve,
    diverged,
    ends,
    group,
    longest,
    reference,
    seen,
    stepper,
    stepper_of,
)
from netdyno.rules._remedies import remedy

LONG = 0.98  # a memory of fifty updates and more
SPAN = 0.05  # of the run: a memory of a twentieth is slow to change its mind
SWINGS = 1.0  # rises together as large as what can be learnt


@rule(suggests=(), stage="settings")
def overlong_momentum(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None:
        return None
    momentum = max(one.momentum or 0.0 for one in stepper.groups)
    if momentum < LONG or momentum >= 1 or 1 / (1 - momentum) < SPAN * course.updates:
        return None
    known, swings, at = reference(course, stepper), _swings(course), ends(course)
    if known <= 0 or not (diverged(course) or at.last > 0.7 * known or swings > SWINGS * known):
        return None
    return Finding(
        says=f"momentum of {momentum:g} remembers about {1 / (1 - momentum):.0f} of {course.updates} updates: the loss rose by {swings:.3g} in"
        f" all on its way from {at.start:.3g} to {at.last:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"momentum": momentum, "updates": float(course.updates), "swings": swings, "last_loss": at.last},
        fix="set the momentum to 0.9",
        where=gradients.optimizer_where,
        confidence=0.85,
        remedies=remedy("set-optimizer", momentum=0.9),
    )


def _swings(course: Course) -> float:
    """All rises of the smoothed loss that are larger than its noise, added up."""
    losses = [one.loss for one in course.bins]
    wide = max(1, len(losses) // 24)
    smooth = [sum(losses[at : at + wide]) / wide for at in range(0, len(losses) - wide + 1, wide)]
    noise = 2 * min(one.spread for one in course.bins) / wide**0.5
    return sum(b - a for a, b in pairwise(smooth) if b - a > noise)


_SLOW = (stepper(group(momentum=0.999), kind="SGD"),)
SICK = (
    (seen(steppers=_SLOW), curve(2.3, 0.5, 0.3, 2.0, 5.0, 1.0, 0.4, 3.0, kind="SGD")),
    (seen(steppers=_SLOW), curve(2.3, 9.0, 90.0, broke=40, last_finite=False, kind="SGD")),
)
# Usual momentum that swings; long momentum in a run that learns.
WELL = (
    (seen(steppers=(stepper(kind="SGD"),)), curve(2.3, 0.5, 0.3, 2.0, 5.0, 1.0, kind="SGD")),
    (seen(steppers=_SLOW), curve(*FALLS, kind="SGD")),
)
