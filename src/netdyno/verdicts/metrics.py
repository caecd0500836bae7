"""What a score is worth beside what costs nothing: metrics for uneven classes, each next to its baseline.

A detector of something that happens three times in a thousand is right in 99.7 % of all cases when it never says so. So accuracy is told
with the accuracy of the commonest answer, and average precision with the share of positives, which is what a coin reaches.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netdyno.errors import NetdynoError
from netdyno.records.base import Noun
from netdyno.records.measured import Interval
from netdyno.stats.shares import counted_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From here on the commonest answer alone is right in nine of ten cases, and accuracy says little of the rest.
HIDES = 0.9
POINTS = 101  # of a precision-recall curve: one for each per cent of recall
RESAMPLES = 400  # a 95 % interval of percentiles then rests on ten values at either end
FEWEST = 5  # positives below which resampling knows too few of them to say how they scatter


class BinaryScores(Noun, frozen=True, kw_only=True):
    """How well scores tell positives from negatives. What cannot be computed is None: without both classes nothing can be told apart.

    `prevalence` is the share of positives, and the baseline of `average_precision`; `trivial_accuracy` that of always
    giving the commoner answer. `precision`, `recall` and `f1` are those at `threshold`. `curve` are (recall, precision) pairs. `warnings` say
    which number must not be read alone.
    """

    samples: int
    positives: int
    prevalence: float
    threshold: float
    accuracy: Interval
    trivial_accuracy: float
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    trivial_f1: float | None = None
    auc: Interval | None = None
    average_precision: Interval | None = None
    curve: tuple[tuple[float, float], ...] = ()
    warnings: tuple[str, ...] = ()


class ClassScore(Noun, frozen=True, kw_only=True):
    """One class: how many samples are of it, how many of them were found, and how many of those named were right."""

    name: str
    samples: int
    recall: Interval | None
    precision: float | None
    f1: float | None


class ClassScores(Noun, frozen=True, kw_only=True):
    """Answers over classes. `balanced_accuracy` is the mean recall of classes that occur; guessing the commonest gets 1 / classes of it."""

    samples: int
    accuracy: Interval
    trivial_accuracy: float
    balanced_accuracy: float
    trivial_balanced_accuracy: float
    macro_f1: float
    classes: tuple[ClassScore, ...]
    warnings: tuple[str, ...] = ()


def binary(
    scores: Sequence[float], labels: Sequence[int], *, threshold: float = 0.5, level: float = 0.95, seed: int = 0
) -> BinaryScores:
    """The metrics of scores (higher: rather positive) against labels 0 and 1.

    Raises NetdynoError for other labels, other lengths and scores that are not finite.
    """
    import numpy as np

    found, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    _refuse_odd(found, truth)
    truth = truth.astype(bool)
    named = found >= threshold
    hits, positives = int((named & truth).sum()), int(truth.sum())
    prevalence = positives / len(truth)
    accuracy = counted_share(int((named == truth).sum()), len(truth), level=level)
    trivial = max(prevalence, 1 - prevalence)
    precision = hits / int(named.sum()) if named.any() else None
    recall = hits / positives if positives else None
    both = 0 < positives < len(truth)
    auc, average = _ranked(found, truth, level=level, seed=seed) if both else (None, None)
    return BinaryScores(
        samples=len(truth),
        positives=positives,
        prevalence=prevalence,
        threshold=threshold,
        accuracy=accuracy,
        trivial_accuracy=trivial,
        precision=precision,
        recall=recall,
        f1=2 * hits / (positives + int(named.sum())) if positives else None,
        # Saying "positive" to everything has all of the recall, and the prevalence for precision.
        trivial_f1=2 * prevalence / (1 + prevalence) if positives else None,
        auc=auc,
        average_precision=average,
        curve=_curve(found, truth) if both else (),
        warnings=(*_plain(accuracy, trivial, "the rarer one"), *_of_ranking(prevalence, positives, average, auc)),
    )


def over_classes(
    answers: Sequence[int], labels: Sequence[int], *, names: Sequence[str] = (), level: float = 0.95
) -> ClassScores:
    """Accuracy beside that of the commonest answer, and recall, precision and F1 of every class."""
    import numpy as np

    given, truth = np.asarray(answers), np.asarray(labels)
    if len(given) != len(truth) or not len(truth):
        raise NetdynoError(
            "cannot compare answers with labels",
            because=f"there are `{len(given)}` answers and `{len(truth)}` labels",
            hint="give one answer for each label, and at least one",
        )
    kinds = sorted({*given.tolist(), *truth.tolist()})
    classes = tuple(_of_class(kind, given, truth, names, level) for kind in kinds)
    there = [one for one in classes if one.recall is not None]
    trivial = max(one.samples for one in classes) / len(truth)
    accuracy = counted_share(int((given == truth).sum()), len(truth), level=level)
    return ClassScores(
        samples=len(truth),
        accuracy=accuracy,
        trivial_accuracy=trivial,
        balanced_accuracy=sum(one.recall.middle for one in there if one.recall is not None) / len(there),
        trivial_balanced_accuracy=1 / len(there),
        macro_f1=sum(one.f1 or 0.0 for one in there) / len(there),
        classes=classes,
        warnings=_plain(accuracy, trivial, "the rarer ones") if len(there) > 1 else (),
    )


def _of_class(
    kind: Any, given: "NDArray[Any]", truth: "NDArray[Any]", names: Sequence[str], level: float
) -> ClassScore:
    samples, named = int((truth == kind).sum()), int((given == kind).sum())
    hits = int(((truth == kind) & (given == kind)).sum())
    return ClassScore(
        name=names[kind] if isinstance(kind, int) and 0 <= kind < len(names) else str(kind),
        samples=samples,
        recall=counted_share(hits, samples, level=level) if samples else None,
        precision=hits / named if named else None,
        f1=2 * hits / (samples + named) if samples else None,
    )


def _plain(accuracy: Interval, trivial: float, rarer: str) -> tuple[str, ...]:
    """What must be said of accuracy: that the commonest answer reaches it, or that it says little of the rest."""
    if accuracy.high < trivial:
        return (
            f"accuracy {_told(accuracy.middle)} is below the {_told(trivial)} of always giving the commonest answer",
        )
    if accuracy.holds(trivial):
        return (
            f"accuracy {_told(accuracy.middle)} cannot be told from the {_told(trivial)} of always giving the commonest answer",
        )
    if trivial >= HIDES:
        return (f"always giving the commonest answer reaches {_told(trivial)}: accuracy says little of {rarer}",)
    return ()


def _of_ranking(prevalence: float, positives: int, average: Interval | None, auc: Interval | None) -> tuple[str, ...]:
    if average is None or auc is None:
        return ("there is only one class: nothing can be told apart",)
    if positives < FEWEST:
        return (f"{positives} positives are too few to say how sure precision and recall are",)
    if average.holds(prevalence) or auc.holds(0.5):
        return (
            f"average precision {average.middle:.3f} cannot be told from the {prevalence:.3f} of scores drawn by chance",
        )
    return ()


def _told(share: float) -> str:
    """A share with as many digits as it takes to be no round 100 %.

    >>> _told(0.997), _told(0.5)
    ('99.7 %', '50 %')
    """
    return f"{100 * share:.1f} %" if share > HIDES else f"{100 * share:.0f} %"


def _ranked(scores: "NDArray[Any]", truth: "NDArray[Any]", *, level: float, seed: int) -> tuple[Interval, Interval]:
    """Area under the ROC curve and average precision, with intervals from resampling within each class."""
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    positives, negatives = truth[order].astype(float), (~truth[order]).astype(float)
    # Where the score changes: samples of one score are named together.
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    middle = _areas(positives, negatives, ends)
    chance = np.random.default_rng(seed)
    # One positive drawn again and again scatters by nothing: with so few, nothing is known but the bounds.
    rounds = RESAMPLES if positives.sum() >= FEWEST else 0
    drawn = [_areas(_again(positives, chance), _again(negatives, chance), ends) for _ in range(rounds)]
    auc, average = (_around(value, [one[at] for one in drawn], level) for at, value in enumerate(middle))
    return auc, average


def _again(side: "NDArray[Any]", chance: Any) -> "NDArray[Any]":
    """As many draws as there are samples of a class: how often each of them came."""
    return chance.multinomial(int(side.sum()), side / side.sum())


def _areas(positives: "NDArray[Any]", negatives: "NDArray[Any]", ends: "NDArray[Any]") -> tuple[float, float]:
    """Both areas from how often each sample occurs, samples from the highest score down."""
    import numpy as np

    hits, misses = np.cumsum(positives)[ends], np.cumsum(negatives)[ends]
    gained, missed = np.diff(hits, prepend=0), np.diff(misses, prepend=0)
    below = misses[-1] - misses
    precision = hits / np.maximum(hits + misses, 1)
    return float((gained * (below + missed / 2)).sum() / (hits[-1] * misses[-1])), float(
        (gained * precision).sum() / hits[-1]
    )


def _around(middle: float, drawn: Sequence[float], level: float) -> Interval:
    import numpy as np

    if not drawn:
        return Interval(middle=middle, low=0.0, high=1.0, level=level)
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    return Interval(middle=middle, low=min(middle, float(low)), high=max(middle, float(high)), level=level)


def _curve(scores: "NDArray[Any]", truth: "NDArray[Any]") -> tuple[tuple[float, float], ...]:
    """Precision at each per cent of recall: the best that a threshold reaches with at least that much recall."""
    import numpy as np
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(truth, scores)
    wanted = np.linspace(0, 1, POINTS)
    return tuple((float(least), float(precision[recall >= least - 1e-12].max())) for least in wanted)


def _refuse_odd(scores: "NDArray[Any]", labels: "NDArray[Any]") -> None:
    import numpy as np

    if scores.shape != labels.shape or scores.ndim != 1 or not len(labels):
        because = f"the scores have the shape `{scores.shape}` and the labels `{labels.shape}`"
    elif not np.isfinite(scores).all():
        because = f"`{int((~np.isfinite(scores)).sum())}` scores are not finite"
    elif not np.isin(labels, (0, 1)).all():
        because = f"there is a label `{labels[~np.isin(labels, (0, 1))][0]}`"
    else:
        return
    raise NetdynoError(
        "cannot compute metrics of two classes", because=because,
        hint="give one finite score and one label, 0 or 1, for each sample",
    )  # fmt: skip
