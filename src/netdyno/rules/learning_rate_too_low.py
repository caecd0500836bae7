"""Steps are so short that the weights hardly leave their place in the whole run.

Looks for:  a run from fresh weights in which matrices moved only a few hundredths of their size altogether, while the
            loss fell a little and steadily, and most of what can be learnt is left.
Matters:    it would take many times as long; the curve looks like a model that cannot learn.
Try:        ten times the learning rate, or a range test.
Not this:   a checkpoint that is refined gently, wide networks that learn without moving, frozen parts, or gradients that
            vanish, are clipped or decayed away.
"""

from math import log10

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Course, Gradients, LossCurve, Stepper
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    began_afresh,
    chance_of,
    course,
    curve,
    ends,
    group,
    learns_little,
    longest,
    matrices,
    middle,
    seen,
    stepper,
    stepper_of,
    symmetric,
    tightly_clipped,
    vanishing,
    weight,
)
from netdyno.rules._remedies import remedy

NEAR = 0.1  # a random matrix that moved by less than a tenth of its size still computes about what it did
STILL = 1e-9  # what does not move at all is cut off or not stepped, which is not a matter of rates
FROZEN = 0.5  # where half of the numbers are frozen, the rest may be a small part on purpose
WILD = 2.0  # a first loss of twice chance comes from weights or data that are too large, which is the first thing to put right
LATE_FALL = 0.1  # the share of the whole fall that its last third must have: a straight line has a third


@rule(suggests=(), stage="settings")
def learning_rate_too_low(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or not learns_little(course, stepper) or not began_afresh(course, stepper):
        return None
    mixing = matrices(gradients, stepper)
    moved = middle([one.moved for one in mixing])
    if moved is None or not STILL < moved < NEAR or _other(gradients, course, stepper) or not _steady(course):
        return None
    at = ends(course)
    rate = stepper.groups[0].lr_most
    return Finding(
        says=f"weights moved by {moved:.2%} of their size in all {course.updates} updates, and the loss crept from {at.start:.3g}"
        f" to {at.last:.3g}: the learning rate of {rate:g} is too low",
        layer="optimisation",
        saves=NOTHING,
        because={
            "moved": moved,
            "rate": rate,
            "first_loss": at.start,
            "last_loss": at.last,
            "updates": float(course.updates),
        },
        fix="raise the learning rate ten- to a hundredfold",
        where=gradients.optimizer_where,
        confidence=0.85
        if chance_of(course, stepper) is not None
        else 0.6,  # without chance nobody knows what was left to learn
        remedies=remedy("scale-learning-rate", factor=_factor(moved)),
    )


def _factor(moved: float) -> float:
    """The power of ten that would have moved the weights by about a fifth."""
    return float(10.0 ** min(4, max(1, round(log10(0.2 / moved)))))


def _other(gradients: Gradients, course: Course, stepper: Stepper) -> bool:
    mixing = matrices(gradients, stepper)
    chance = chance_of(course, stepper)
    return (
        (chance is not None and course.first is not None and course.first > WILD * chance)
        or tightly_clipped(gradients) is not None
        or (vanishing(mixing) or 0) > 100
        or bool(symmetric(mixing))
        or (stepper.decay or 0) > 1
        or (stepper.eps_share or 0) > 1
        or gradients.frozen > FROZEN * max(1, gradients.numbers)
        or any(one.lr_last < 0.01 * one.lr_most for one in stepper.groups)
    )


def _steady(course: Course) -> bool:
    """Still falling at the end, by more than its noise."""
    losses = [one.loss for one in course.bins]
    third = max(1, len(losses) // 3)
    first, middle_, last = (
        sum(part) / len(part) for part in (losses[:third], losses[third : 2 * third] or losses[:third], losses[-third:])
    )
    return first > last and middle_ - last > LATE_FALL * (first - last)


_CREEPS = tuple(2.31 - 0.01 * step for step in range(12))
_NEAR = (weight(moved=0.004, ratio=2e-5), weight("head.weight", moved=0.006, ratio=3e-5))
SICK = ((seen(*_NEAR), curve(*_CREEPS, rates=(1e-6,))), (seen(*_NEAR), curve(*_CREEPS, chance=None)))
# It learns though it moves little; a checkpoint that is refined; gradients vanish; all is clipped; it moved and does not
# learn; a backbone is frozen; nothing moves at all.
WELL = (
    (seen(*_NEAR), curve(*FALLS)),
    (seen(*_NEAR), curve(0.11, 0.109, 0.108, 0.107)),
    (seen(*(weight(f"layers.{n}.weight", gradient=10.0 ** (n - 8), moved=0.001) for n in range(8))), curve(*_CREEPS)),
    (seen(), curve(*_CREEPS)),
    (seen(*_NEAR, frozen=9000), curve(*_CREEPS)),
    (seen(weight(moved=0.0, ratio=0.0)), curve(*STAYS)),
    (seen(*_NEAR, steppers=(stepper(group(lr_last=0.0)),)), LossCurve(courses=(course(*_CREEPS),))),
)
