"""Nearly everything is frozen, and what is left cannot learn the task.

Looks for:  less than a twentieth of the numbers asking for gradients, and a run that learnt little.
Matters:    a filter of names that freezes too much leaves a random network, whatever the optimizer does.
Try:        look at `[n for n, p in model.named_parameters() if p.requires_grad]`.
Not this:   a frozen backbone whose head learns, adapters, or norms that are tuned with success.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import FALLS, NOTHING, STAYS, UPDATES, curve, ends, longest, reference, seen, stepper_of
from netdyno.rules._remedies import remedy

FEW = 0.05
LEFT = 0.5  # a sound head on a sound backbone learns more than half of what can be learnt


@rule(suggests=(), stage="structure")
def frozen_model(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    if course is None or course.updates < UPDATES or not gradients.numbers:
        return None
    share = 1 - gradients.frozen / gradients.numbers
    known, at = reference(course, stepper_of(gradients, course)), ends(course)
    if share > FEW or known <= 0 or at.last < LEFT * known:
        return None
    return Finding(
        says=f"only {share:.1%} of the model's numbers are trained, the rest is frozen, and the loss ended at {at.last:.3g} of {known:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"trained": share, "frozen": float(gradients.frozen), "last_loss": at.last, "known": known},
        fix="unfreeze what has to learn, the head at least: look at the filter that sets `requires_grad`",
        where=gradients.optimizer_where,
        confidence=0.8,
        remedies=remedy("train-everything", unfreeze=True),
    )


SICK = ((seen(frozen=9_900), curve(*STAYS)),)
WELL = ((seen(frozen=9_900), curve(*FALLS)), (seen(), curve(*STAYS)), (seen(frozen=5_000), curve(*STAYS)))
