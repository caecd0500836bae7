"""Classes have other shares in evaluation than in training.

Looks for:  shares of classes that differ between the two sides far beyond chance, where the inputs of a class do not.
Matters:    the model expects classes as often as training showed them; the score is that of another mix.
Try:        split by class (stratified), or weigh classes by the shares that are expected.
Not this:   a class that is missing; rebalanced training by a sampler or by weights; small samples.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# A fifth of the rows would have to change class for the shares to be equal.
MOVED = 0.2
# Chi-square per degree of freedom; 5 is far beyond 0.1 % for every number of classes.
CHANCE = 5.0


@rule(stage="data")
def label_shift(samples: Samples) -> Finding | None:
    distance = samples.label_distance
    if samples.task != "classes" or samples.joint or samples.weighted or distance is None or distance < MOVED:
        return None
    trained, asked = samples.train_labels, samples.eval_labels
    if samples.classes < 2 or len(asked) > len(trained) or sum(asked) < 60 or min(trained) == 0:
        return None
    if _beyond_chance(trained, asked) < CHANCE:
        return None
    if any(one.sampler == "WeightedRandomSampler" for one in samples.loaders):
        return None
    shares = [
        (n / sum(asked) - m / sum(trained), kind) for kind, (m, n) in enumerate(zip(trained, asked, strict=False))
    ]
    more, kind = max(shares)
    # A model that answers evaluation as well as training was not harmed.
    harmed = (
        samples.eval_score is not None
        and samples.train_score is not None
        and samples.eval_score < samples.train_score - 0.03
    )
    return wrong(
        f"class {kind} is {trained[kind] / sum(trained):.0%} of training and {asked[kind] / sum(asked):.0%} of evaluation; "
        f"{distance:.0%} of the rows would have to change class for equal shares",
        fix="split with equal shares of classes (stratify), or weigh classes by the shares expected in use",
        because={"distance": distance, "gain_of_class": more},
        confidence=SURE if harmed else SUSPECTED,
        where=_uneven(samples),
        layer="generalisation",
        explains=("overfitting", "covariate-shift"),
    )


def _uneven(samples: Samples) -> Place | None:
    """What made the labels of the side whose classes are the less even: most data are balanced until somebody takes some away."""
    trained, asked = samples.train_labels, samples.eval_labels
    if max(trained) * sum(asked) > max(asked) * sum(trained):
        return samples.targets_where or samples.where
    return samples.eval_targets_where or samples.eval_where


def _beyond_chance(trained: tuple[int, ...], asked: tuple[int, ...]) -> float:
    total, expected = sum(asked), sum(trained)
    terms = [
        (n - total * m / expected) ** 2 / (total * m / expected) for m, n in zip(trained, asked, strict=False) if m
    ]
    return sum(terms) / max(1, len(terms) - 1)


SICK = (
    (healthy(eval_labels=(200, 10, 10, 10, 10, 10, 10, 10, 10, 10), label_distance=0.6, eval_score=0.85),),
    (healthy(train_labels=(600, 600), eval_labels=(180, 20), classes=2, label_distance=0.4, eval_score=0.8),),
)
# Alike; rebalanced by weights; twenty rows.
WELL = (
    (healthy(),),
    (healthy(eval_labels=(200, 20), train_labels=(600, 600), classes=2, label_distance=0.4, weighted=True),),
    (healthy(eval_labels=(6, 1, 1, 1, 1, 1, 4, 2, 2, 1), label_distance=0.3),),
)
