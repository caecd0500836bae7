"""Training ends while it is still getting much better.

Looks for:  a run of two to five passes in which the last one still lowered the held-out loss by a third.
Matters:    the model is left where a few more epochs would make it much better.
Try:        train until the held-out loss has stopped falling.
Not this:   one pass over a stream, long runs with a slope, or a schedule that has ended.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import ScriptTrace
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import first_place, rule
from netdyno.rules._learning import NOTHING, course, ends, evaluation, longest, reference, seen, stepper_of

FEW, MOST = 1.5, 5.0  # passes
FALL = 0.33  # of the held-out loss in its last round
LEFT = 0.15  # of knowing nothing: below, little is left to win


@rule(suggests=(), stage="outcome")
def unfinished_training(
    curve: LossCurve, gradients: Gradients | None = None, trace: ScriptTrace | None = None
) -> Finding | None:
    course = longest(curve)
    if course is None or course.passes is None or not FEW < course.passes <= MOST:
        return None
    known, at = reference(course, stepper_of(gradients, course)), ends(course)
    held = [each.rounds for each in curve.evaluations if not each.trains and len(each.rounds) >= 2]
    if not held or known <= 0 or at.last < LEFT * known:
        return None
    before, last = held[0][-2].loss, held[0][-1].loss
    decayed = course.bins[-1].rate < 0.1 * max(one.rate for one in course.bins)
    if before <= 0 or 1 - last / before < FALL or decayed:
        return None
    return Finding(
        says=f"training stopped after {course.passes:.0f} passes, the last of which still lowered the held-out loss from {before:.3g} to {last:.3g}",
        layer="generalisation",
        saves=NOTHING,
        because={"passes": course.passes, "before": before, "last": last},
        fix="train for more epochs, until the held-out loss stops falling",
        where=first_place(trace, "epochs") or course.where,
        confidence=0.7,
    )


SICK = ((LossCurve(courses=(course(2.3, 2.1, 1.6, 1.1, passes=2.0),), evaluations=(evaluation(1.8, 1.0),)), seen()),)
WELL = (
    (LossCurve(courses=(course(2.3, 2.1, 1.6, 1.1, passes=1.0),), evaluations=(evaluation(1.8, 1.0),)), seen()),
    (
        LossCurve(courses=(course(2.3, 0.6, 0.4, 0.3, passes=4.0),), evaluations=(evaluation(0.8, 0.5, 0.4, 0.38),)),
        seen(),
    ),
    (LossCurve(courses=(course(2.3, 2.1, 1.6, 1.1, passes=20.0),), evaluations=(evaluation(1.8, 1.0),)), seen()),
)
