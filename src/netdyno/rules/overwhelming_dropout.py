"""Dropout takes so much that the model cannot learn in training what it would know without.

Looks for:  a dropout of three quarters and more, and a training loss that ends high and far above the held-out loss.
Matters:    with nine of ten units gone, what is left is noise.
Try:        0.1 to 0.5.
Not this:   strong dropout in a run that learns, and a training loss that lies above the held-out one by a little.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    NOTHING,
    course,
    ends,
    evaluation,
    learns_little,
    longest,
    reference,
    seen,
    stepper_of,
)
from netdyno.rules._remedies import remedy

STRONG = 0.75
DROWNS = 0.9  # where nine of ten are gone, not even the loss without dropout need fall
MODEST = 0.25  # what an experiment leaves of it: below the half that is the most anybody recommends
ABOVE = 1.25  # training loss over held-out loss
LEFT = 0.3  # of knowing nothing that the training loss still has


@rule(suggests=(), stage="settings")
def overwhelming_dropout(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    if course is None or (gradients.dropout or 0) < STRONG:
        return None
    known, at = reference(course, stepper_of(gradients, course)), ends(course)
    held = [each.rounds[-1].loss for each in curve.evaluations if not each.trains and each.rounds]
    if not held or known <= 0 or at.last < LEFT * known:
        return None
    drowned = (gradients.dropout or 0) >= DROWNS and learns_little(course, stepper_of(gradients, course))
    if at.last < ABOVE * held[0] and not drowned:
        return None
    return Finding(
        says=f"dropout of {gradients.dropout:g} leaves the training loss at {at.last:.3g} of {known:.3g}, while without it the held-out loss is {held[0]:.3g}",
        layer="generalisation",
        saves=NOTHING,
        because={"dropout": gradients.dropout or 0.0, "train": at.last, "held_out": held[0]},
        fix="lower the dropout to 0.5 or less",
        where=gradients.dropout_where or gradients.model_where,
        confidence=0.8,
        remedies=remedy("scale-dropout", factor=MODEST / (gradients.dropout or 1.0)),
    )


_HIGH = LossCurve(courses=(course(2.3, 2.1, 1.9, 1.8, 1.8, 1.7),), evaluations=(evaluation(1.9, 1.4, 1.2),))
_FLAT = LossCurve(courses=(course(2.32, 2.31, 2.3, 2.32, 2.31, 2.32),), evaluations=(evaluation(2.3, 2.3, 2.29),))
SICK = ((seen(dropout=0.9), _HIGH), (seen(dropout=0.95), _FLAT))
WELL = (
    (seen(dropout=0.5), _HIGH),
    (seen(dropout=0.8), LossCurve(courses=(course(2.3, 0.9, 0.4, 0.3),), evaluations=(evaluation(0.5, 0.2),))),
    (seen(), _HIGH),
    (seen(dropout=0.8), _FLAT),
)
