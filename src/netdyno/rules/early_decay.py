"""The learning rate has decayed to nothing long before the run is over.

Looks for:  a learning rate below a hundredth of its peak from the first half of the run to its end, while the loss was
            still falling when it vanished and has stood still since, far from learnt.
Matters:    most of the run is spent without learning: a schedule that was meant per epoch is stepped per batch.
Try:        `scheduler.step()` once per epoch, or a schedule in updates that lasts as long as the run.
Not this:   a decay that ends with the run, a warm restart, a rate that vanishes when all is learnt.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import ScriptTrace
from netdyno.records.learning import Course, Gradients, LossCurve
from netdyno.rules._base import first_place, rule
from netdyno.rules._learning import FALLS, NOTHING, UPDATES, curve, ends, longest, reference, seen, stepper_of
from netdyno.rules._remedies import remedy

GONE = 0.01  # a hundredth of the peak moves weights no more
EARLY = 0.5  # decays in use vanish in the last tenth of a run
LEFT = 0.25  # with three quarters learnt, a rate that vanishes does little harm


@rule(suggests=(), stage="settings")
def early_decay(
    curve: LossCurve, gradients: Gradients | None = None, trace: ScriptTrace | None = None
) -> Finding | None:
    course = longest(curve)
    if course is None or course.updates < UPDATES:
        return None
    gone = _gone(course)
    if gone is None or gone > EARLY * course.updates:
        return None
    stepper = stepper_of(gradients, course)
    known, at = reference(course, stepper), ends(course)
    live = [one.loss for one in course.bins if one.at <= gone]
    dead = [one.loss for one in course.bins if one.at > gone]
    if known <= 0 or at.last < LEFT * known or len(dead) < 2 or sum(dead) / len(dead) < 0.85 * live[-1]:
        return None
    peak = max(one.rate for one in course.bins)
    return Finding(
        says=f"the learning rate fell below a hundredth of its {peak:g} by update {gone} of {course.updates} and stayed there,"
        f" with the loss at {at.last:.3g} of {known:.3g}: the schedule runs out too early",
        layer="optimisation",
        saves=NOTHING,
        because={"vanished_at": float(gone), "updates": float(course.updates), "peak": peak, "last_loss": at.last},
        fix="step the schedule once per epoch instead of per batch, or let it last as many updates as the run",
        where=first_place(trace, "schedulers") or (gradients.optimizer_where if gradients is not None else None),
        confidence=0.9,
        remedies=remedy("schedule-per-epoch", batches=round(course.updates / course.passes)) if course.passes else (),
    )


def _gone(course: Course) -> int | None:
    """The update from which on the rate stayed below a hundredth of its peak."""
    peak = max(one.rate for one in course.bins)
    last = max((number for number, one in enumerate(course.bins) if one.rate > GONE * peak), default=-1)
    return course.bins[last + 1].at if peak > 0 and 0 <= last < len(course.bins) - 1 else None


SICK = (
    (curve(2.3, 1.9, 1.8, 1.8, 1.8, 1.8, 1.8, 1.8, rates=(1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-12, 1e-12)), seen()),
)
# It lasts as long as the run; warm restarts; all was learnt before; no schedule.
WELL = (
    (curve(*FALLS, rates=(1e-3, 9e-4, 7e-4, 4e-4, 1e-4, 1e-6)), seen()),
    (curve(2.3, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, rates=(1e-3, 1e-6, 1e-3, 1e-6, 1e-3, 1e-6, 1e-3, 1e-3)), seen()),
    (curve(2.3, 0.4, 0.1, 0.1, 0.1, 0.1, rates=(1e-3, 1e-4, 1e-6, 1e-8, 1e-8, 1e-8)), seen()),
    (curve(*FALLS), seen()),
)
