"""Weights or gradients are no numbers, while the loss looks fine.

Looks for:  parameters that are not finite in looks, in a run whose losses were all finite.
Matters:    what is logged is made up (`nan_to_num`, a filter): the model is lost already.
Try:        take the filter away and stop at the first loss that is not finite.
Not this:   a loss that shows it, and steps that a gradient scaler left out.
"""

from netdyno.records.base import Place
from netdyno.records.calls import CallTraces
from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import UpdateOrder
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._calls import where_of
from netdyno.rules._learning import FALLS, NOTHING, curve, longest, seen, weight
from netdyno.rules._remedies import remedy


@rule(suggests=(), stage="dynamics")
def hidden_nan(
    gradients: Gradients, curve: LossCurve, order: UpdateOrder | None = None, traces: CallTraces | None = None
) -> Finding | None:
    course = longest(curve)
    lost = [one for one in gradients.weights if one.nonfinite and one.norm_last is None]
    if course is None or not lost or course.broke is not None or (order is not None and order.skipped):
        return None
    return Finding(
        says=f"{len(lost)} of {len(gradients.weights)} parameters are no numbers (`{lost[0].name}`), while all {course.updates} losses were finite:"
        " something hides it",
        layer="optimisation",
        saves=NOTHING,
        because={
            "lost": float(len(lost)),
            "parameters": float(len(gradients.weights)),
            "updates": float(course.updates),
        },
        fix="take away what replaces NaN in the loss, and stop at the first one",
        where=where_of(traces, "nan_to_num", "nan_to_num_")
        or Place(module=lost[0].name.rpartition(".")[0] or lost[0].name),
        confidence=0.9,
        remedies=remedy("scale-learning-rate", factor=1e-3),
    )


SICK = ((seen(weight(nonfinite=True, norm_last=None)), curve(*FALLS)),)
# All finite; the loss shows it; a scaler skipped.
WELL = (
    (seen(), curve(*FALLS)),
    (seen(weight(nonfinite=True, norm_last=None)), curve(2.3, 9.0, broke=20, last_finite=False)),
    (seen(weight(nonfinite=True)), curve(*FALLS), UpdateOrder(updates=400, skipped=2)),
)
