"""A group of parameters has a learning rate of zero throughout.

Looks for:  a group whose learning rate was zero at every step, and whose parameters got gradients.
Matters:    it looks trained and never moves; its gradients are paid for.
Try:        set the rate, or freeze the group aloud with `requires_grad_(False)`.
Not this:   a warm-up that begins at zero, a schedule that ends there, or frozen parameters.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, group, seen, stepper, weight
from netdyno.rules._remedies import remedy

STEPS = 20  # a run of fewer steps may end within a warm-up


@rule(suggests=(), stage="settings")
def zero_learning_rate(gradients: Gradients) -> Finding | None:
    for one in gradients.steppers:
        for number, each in enumerate(one.groups):
            mine = [weight for weight in gradients.weights if weight.optimizer == one.index and weight.group == number]
            graded = sum(bool(weight.gradient) for weight in mine)
            if each.lr_most == 0 and graded and one.steps >= STEPS:
                return Finding(
                    says=f"the learning rate of group {number} is 0 in all {one.steps} steps, though {graded} of its"
                    " parameters get gradients: they never move",
                    layer="optimisation",
                    saves=NOTHING,
                    because={"steps": float(one.steps), "parameters": float(each.parameters), "rate": each.lr_most},
                    fix="give the group a learning rate, or say `requires_grad_(False)` where it is meant to stay",
                    where=gradients.optimizer_where,
                    confidence=0.9,
                    remedies=remedy("equal-rates"),
                )
    return None


_IDLE = group(lr_first=0.0, lr_most=0.0, lr_last=0.0)
SICK = ((seen(weight(group=0), weight("head.weight", group=1), steppers=(stepper(_IDLE, group()),)),),)
# A warm-up from zero; a decay to zero; a frozen group, which gets no gradient.
WELL = (
    (seen(steppers=(stepper(group(lr_first=0.0)),)),),
    (seen(steppers=(stepper(group(lr_last=0.0)),)),),
    (seen(weight(gradient=None, missing=12), weight("head.weight", group=1), steppers=(stepper(_IDLE, group()),)),),
)
