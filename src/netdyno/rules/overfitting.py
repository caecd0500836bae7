"""The model learns its training data by heart: the loss of held-out data rises while the training loss goes on falling.

Looks for:  rounds of an evaluation that were well below knowing nothing at their best and have since risen by a quarter and
            more, round after round, while the training loss is a small part of it.
Matters:    later weights are worse for new data than earlier ones.
Try:        stop or keep the weights at the best round, more data, regularisation, or a smaller network.
Not this:   held-out losses that swing, a rise from a level where nothing was ever learnt (it may still come), or training
            losses that are no lower.
"""

from statistics import median

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import ScriptTrace
from netdyno.records.learning import Evaluation, Gradients, LossCurve
from netdyno.rules._base import first_place, rule
from netdyno.rules._learning import FALLS, NOTHING, course, ends, evaluation, longest, reference, seen, stepper_of
from netdyno.rules._remedies import remedy

ROUNDS = 6  # of which three and more came after the best one; all of the second half of those must lie above
ROSE = 1.3  # confidence alone lifts the loss of a model that goes on improving by some tens of per cent
# The lowest of some dozens of draws lies two to three deviations below their middle: a rise from it must be more.
SWINGS = 4.0
GAP = 0.25  # training loss over held-out loss
LEARNT = 0.8  # the best round, as a share of knowing nothing


@rule(suggests=(), stage="outcome")
def overfitting(
    curve: LossCurve, gradients: Gradients | None = None, trace: ScriptTrace | None = None
) -> Finding | None:
    course = longest(curve)
    if course is None or course.summed != 1:
        return None
    known, train = reference(course, stepper_of(gradients, course)), ends(course).last
    held = [each for each in curve.evaluations if not each.trains and len(each.rounds) >= ROUNDS]
    for each in held:
        losses = [one.loss for one in each.rounds]
        best = min(range(len(losses)), key=losses.__getitem__)
        last = sum(losses[-3:]) / 3
        if known <= 0 or not 0 < losses[best] < LEARNT * known:
            continue
        if not _rises(losses, best) or train > GAP * last:
            continue
        return Finding(
            says=f"held-out loss was best in round {best + 1} of {len(losses)} at {losses[best]:.3g} and has risen to {last:.3g}, while the training"
            f" loss fell to {train:.3g}: the model learns its training data by heart",
            layer="generalisation",
            saves=NOTHING,
            because={
                "best": losses[best],
                "last": last,
                "train": train,
                "best_round": float(best + 1),
                "rounds": float(len(losses)),
            },
            fix="keep the weights of the best round, or regularise: dropout, weight decay, augmentation, more data",
            where=first_place(trace, "epochs") or each.where,
            confidence=_confidence(each, best, last > known),
            remedies=remedy("stop-training", after=max(1, each.rounds[best].update)),
        )
    return None


def _rises(losses: list[float], best: int) -> bool:
    since = losses[best + 1 :]
    if len(since) < ROUNDS // 2:
        return False
    late = since[len(since) // 2 :]
    return min(late) > ROSE * losses[best] and median(late) - losses[best] > SWINGS * _swing(losses)


def _swing(losses: list[float]) -> float:
    """The deviation from one round to the next, without the course: its steady part is in no second difference."""
    bends = [abs(a - 2 * b + c) for a, b, c in zip(losses, losses[1:], losses[2:], strict=False)]
    # Of independent draws a second difference has six times the variance; the median of its size is 0.67 of its deviation.
    return median(bends) / (6**0.5 * 0.67)


def _confidence(each: Evaluation, best: int, worse_than_nothing: bool) -> float:
    """Where right answers are counted and did not become fewer, only confidence is overdone.

    But a loss above that of knowing nothing, where it was well below, is harm however many answers are right.
    """
    if worse_than_nothing:
        return 0.8
    then, now = each.rounds[best].accuracy, each.rounds[-1].accuracy
    if then is None or now is None:
        return 0.8
    return 0.8 if now <= then + 0.01 else 0.5


_HEART = evaluation(1.0, 0.7, 0.6, 0.62, 0.7, 0.85, 0.95, 1.1, 1.2, 1.3)
_FALSE_CONFIDENCE = evaluation(2.0, 0.9, 0.7, 1.0, 1.4, 1.8, 2.3, 2.6, 2.8, 2.9, accuracy=(0.3, 0.7, *(0.82,) * 8))
SICK = (
    (LossCurve(courses=(course(*FALLS[:-1], 0.01, 0.01),), evaluations=(_HEART,)), seen()),
    (LossCurve(courses=(course(*FALLS[:-1], 0.01, 0.01),), evaluations=(_FALSE_CONFIDENCE,)), seen()),
)
# It goes on falling; it swings; it swings and the best round is a late one; nothing was learnt yet (grokking); training is no better; a robust run on noisy labels.
WELL = (
    (
        LossCurve(courses=(course(*FALLS),), evaluations=(evaluation(1.0, 0.7, 0.6, 0.5, 0.45, 0.44, 0.44, 0.43),)),
        seen(),
    ),
    (
        LossCurve(courses=(course(*FALLS),), evaluations=(evaluation(1.0, 0.6, 0.9, 0.62, 0.9, 0.65, 0.9, 0.62),)),
        seen(),
    ),
    (
        LossCurve(
            courses=(course(*FALLS[:-1], 0.01, 0.01),),
            evaluations=(
                evaluation(0.27, 0.15, 0.09, 0.14, 0.09, 0.15, 0.24, 0.16, 0.12, 0.16, 0.08, 0.1, 0.17, 0.13),
            ),
        ),
        seen(),
    ),
    (
        LossCurve(courses=(course(*FALLS, 0.001),), evaluations=(evaluation(2.3, 2.4, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0),)),
        seen(),
    ),
    (LossCurve(courses=(course(2.3, 1.5, 1.3, 1.2, 1.2, 1.1),), evaluations=(_HEART,)), seen()),
)
