"""The room's own machinery: how a course of losses is read, and the specimens of rules about learning."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from netdyno.records.base import Place
from netdyno.records.diagnosis import Saving
from netdyno.records.learning import Bin, Course, Evaluation, Gradients, Group, LossCurve, Round, Stepper, Weight

NOTHING = Saving(low=0.0, high=0.0)  # what is wrong costs quality, not time
# Less than this part of what could be learnt, after a whole run, is next to nothing: a good model is far beyond it, and
# noise in labels rarely takes two thirds.
LITTLE = 0.3
# Fewer updates than this may be a trial of the script.
UPDATES = 40
# A loss function's value was differentiated as it is: then the loss of the best constant answer is comparable.
AS_IT_IS = 0.02
# A start below this part of chance has learnt before: a checkpoint.
FRESH = 0.7


class Ends(NamedTuple):
    """A course in short: means of its start, its best and its last stretch, its highest, and how far bins of the end lie apart."""

    start: float
    best: float
    last: float
    highest: float
    noise: float


def longest(curve: LossCurve) -> Course | None:
    """The course with the most updates that has losses."""
    return max((course for course in curve.courses if course.bins), key=lambda course: course.updates, default=None)


def stepper_of(seen: Gradients | None, course: Course) -> Stepper | None:
    """The optimizer of a course."""
    steppers = seen.steppers if seen is not None else ()
    return next((one for one in steppers if one.index == course.optimizer and one.kind == course.kind), None)


def weights_of(seen: Gradients, stepper: Stepper) -> tuple[Weight, ...]:
    """The parameters of an optimizer."""
    return tuple(weight for weight in seen.weights if weight.optimizer == stepper.index)


def matrices(seen: Gradients, stepper: Stepper) -> tuple[Weight, ...]:
    """Those that mix inputs."""
    return tuple(weight for weight in weights_of(seen, stepper) if weight.is_matrix)


def ends(course: Course) -> Ends:
    """The course in short."""
    bins = course.bins
    tail = bins[-max(1, len(bins) * 15 // 100) :]
    means = [one.loss for one in bins]
    wide = max(1, len(bins) // 12)
    smooth = [fmean(means[at : at + wide]) for at in range(max(1, len(means) - wide + 1))]
    last = fmean(one.loss for one in tail)
    noise = (fmean((one.loss - last) ** 2 for one in tail)) ** 0.5
    start = course.first if course.first is not None else bins[0].loss
    return Ends(start, min(smooth), last, max(means), noise)


def reference(course: Course, stepper: Stepper | None) -> float:
    """The loss of knowing nothing: of the best constant answer where it is known and comparable, else of the start."""
    chance = chance_of(course, stepper)
    return chance if chance is not None else ends(course).start


def chance_of(course: Course, stepper: Stepper | None) -> float | None:
    """The loss of the best constant answer, when the course's numbers are that loss."""
    if course.chance is None or course.summed != 1 or stepper is None or stepper.divided is None:
        return None
    return course.chance if abs(stepper.divided - 1) < AS_IT_IS else None


def learnt(course: Course, stepper: Stepper | None) -> float | None:
    """Which part of the loss of knowing nothing is gone at the end; None where that has no meaning (losses below zero)."""
    known = reference(course, stepper)
    if known <= 0 or ends(course).last < 0:
        return None
    return 1 - ends(course).last / known


def learns_little(course: Course, stepper: Stepper | None) -> bool:
    """True when a run of some length ends about where it began, or above."""
    part = learnt(course, stepper)
    return part is not None and part < LITTLE and course.updates >= UPDATES


def diverged(course: Course) -> bool:
    """True when the loss broke, or ended far above where it began and where it had been."""
    if course.broke is not None and (not course.last_finite or course.nonfinite > course.updates / 10):
        return True
    at = ends(course)
    return at.start > 0 and at.last > 1.5 * at.start and at.last > at.best + 4 * at.noise


def began_afresh(course: Course, stepper: Stepper | None) -> bool:
    """False for what was trained before: its first loss is already well below that of knowing nothing."""
    chance = chance_of(course, stepper)
    return chance is None or (course.first is not None and course.first > FRESH * chance)


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def vanishing(weights: Sequence[Weight]) -> float | None:
    """By how much gradients shrink from the last matrix to the first, where they shrink layer by layer; None where they don't."""
    sizes = [one.gradient / _root(one) for one in weights if one.gradient and not one.module.startswith("pruned")]
    if len(sizes) < 5 or sizes[0] <= 0:
        return None
    rising = sum(b > a for a, b in pairwise(sizes)) / (len(sizes) - 1)
    return sizes[-1] / sizes[0] if rising >= 0.7 and sizes[-1] > sizes[0] else None


def _root(weight: Weight) -> float:
    numbers = 1
    for size in weight.shape:
        numbers *= size
    return float(min(numbers, 16_384)) ** 0.5


def tightly_clipped(seen: Gradients) -> float | None:
    """The limit as a share of the usual norm, where nearly every look was clipped to a small part of its norm."""
    for clip in seen.clips:
        if clip.looks >= 3 and clip.clipped >= 0.95 * clip.looks and clip.norm > 0 and clip.limit < 0.05 * clip.norm:
            return clip.limit / clip.norm
    return None


def symmetric(weights: Sequence[Weight]) -> tuple[Weight, ...]:
    """Matrices whose rows all began equal."""
    return tuple(
        one for one in weights if one.shape[0] >= 4 and one.row_spread_first is not None and one.row_spread_first < 1e-5
    )


# specimens


def course(*losses: float, updates: int = 400, rates: Sequence[float] = (1e-3,), **fields: object) -> Course:
    """A course through these losses."""
    width = max(1, updates // len(losses))
    bins = tuple(
        Bin(
            at=number * width,
            count=width,
            loss=loss,
            spread=0.02 * abs(loss),
            rate=rates[min(number * len(rates) // len(losses), len(rates) - 1)],
        )
        for number, loss in enumerate(losses)
    )
    known: dict[str, object] = {
        "optimizer": 0, "kind": "Adam", "updates": updates, "bins": bins, "first": losses[0], "chance": 2.3, "classes": 10,
        "loss": "cross_entropy", "passes": 20.0, "where": Place(file="train.py", line=40),
    }  # fmt: skip
    return Course(**(known | fields))  # type: ignore[arg-type]


def curve(*losses: float, **fields: object) -> LossCurve:
    """Of one optimizer, without evaluations."""
    return LossCurve(courses=(course(*losses, **fields),))  # type: ignore[arg-type]


FALLS = (2.3, 1.4, 0.9, 0.6, 0.4, 0.3, 0.25, 0.2, 0.18, 0.16, 0.15, 0.14)
STAYS = (2.31, 2.30, 2.30, 2.29, 2.30, 2.29, 2.30, 2.30, 2.29, 2.30, 2.29, 2.29)


def weight(name: str = "fc1.weight", **fields: object) -> Weight:
    """A healthy one."""
    known: dict[str, object] = {
        "name": name, "module": "Linear", "shape": (96, 64), "optimizer": 0, "group": 0, "looks": 12, "gradient": 0.3,
        "norm_first": 5.6, "norm_last": 6.5, "moved": 0.9, "ratio": 0.02, "ratio_first": 0.03, "dead": 0.0, "dead_looks": 12,
        "row_spread_first": 0.99, "row_spread_last": 0.98, "gain": 0.57,
    }  # fmt: skip
    return Weight(**(known | fields))  # type: ignore[arg-type]


def group(**fields: object) -> Group:
    """Adam's."""
    known: dict[str, object] = {
        "parameters": 6,
        "lr_first": 1e-3,
        "lr_most": 1e-3,
        "lr_last": 1e-3,
        "weight_decay": 0.0,
        "momentum": 0.9,
        "eps": 1e-8,
    }
    return Group(**(known | fields))  # type: ignore[arg-type]


def stepper(*groups: Group, **fields: object) -> Stepper:
    """Adam."""
    known: dict[str, object] = {
        "index": 0, "kind": "Adam", "groups": groups or (group(),), "steps": 400, "looks": 12, "parameters": 6, "divided": 1.0,
        "norms": (0.5, 0.55, 0.6, 0.5),
    }  # fmt: skip
    return Stepper(**(known | fields))  # type: ignore[arg-type]


def seen(*weights: Weight, steppers: tuple[Stepper, ...] | None = None, **fields: object) -> Gradients:
    """A network of two layers under Adam."""
    known: dict[str, object] = {
        "updates": 400, "looks": 12, "weights": weights or (weight(), weight("head.weight", shape=(10, 96))),
        "steppers": steppers if steppers is not None else (stepper(),), "trainable": 6, "numbers": 10_000,
        "backward_where": Place(file="train.py", line=40), "optimizer_where": Place(file="train.py", line=30),
        "model_where": Place(file="train.py", line=38),
    }  # fmt: skip
    return Gradients(**(known | fields))  # type: ignore[arg-type]


def evaluation(
    *losses: float, accuracy: Sequence[float] | None = None, trains: bool = False, every: int = 20
) -> Evaluation:
    """Rounds with these losses."""
    return Evaluation(
        where=Place(file="train.py", line=20),
        trains=trains,
        loss="cross_entropy",
        rounds=tuple(
            Round(
                update=every * (number + 1),
                loss=loss,
                accuracy=accuracy[number] if accuracy is not None else None,
                samples=450,
            )
            for number, loss in enumerate(losses)
        ),
    )
