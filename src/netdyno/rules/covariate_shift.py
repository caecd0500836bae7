"""Evaluation's inputs come from elsewhere than training's.

Looks for:  a good part of the features with clearly other values in evaluation, and a score that is far below training's.
Matters:    what the model learnt holds where it learnt it; the score measures the distance between the two places.
Try:        split at random where both should be alike; otherwise collect or adapt to data like those of evaluation.
Not this:   one scale for all features (`split-scaling`), swapped columns, other label shares, or drift that does no harm.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Drift, Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import ENOUGH, SURE, SUSPECTED, behind, changing, healthy, scaled_apart, wrong

# Each counted feature already differs beyond chance. Below a quarter of them other labels or an odd column explain it.
PART = 0.25
# Of the worst feature half of one side's values lie where the other has none: nobody calls that a sample of the same.
FAR = 0.5
# Without that gap in score the drift is handled.
GAP = 0.15


@rule(stage="data")
def covariate_shift(samples: Samples) -> Finding | None:
    if (
        not samples.floating
        or samples.looked < ENOUGH
        or samples.eval_distinct < 40
        or samples.swapped
        or scaled_apart(samples)
    ):
        return None
    if samples.drifted_share < PART or not samples.drifted or not behind(samples, GAP):
        return None
    worst = samples.drifted[0]
    if worst.distance < FAR:
        return None
    # Other labels bring other inputs: then it is the labels that moved.
    other_labels = (samples.label_distance or 0.0) > 0.15
    return wrong(
        f"{samples.drifted_share:.0%} of the features have other values in evaluation: feature {worst.feature} has mean "
        f"{worst.eval_mean:.3g} there and {worst.train_mean:.3g} in training",
        fix="make training data like those of evaluation, or split at random if both should be alike",
        because={"drifted_share": samples.drifted_share, "distance": worst.distance},
        # Noise and cuts that only training has move its features too.
        confidence=SUSPECTED if other_labels or changing(samples) else SURE,
        where=samples.eval_where,
        layer="generalisation",
        explains=("overfitting",),
    )


def _moved(**fields: object) -> Samples:
    drift = Drift(feature=3, distance=0.8, train_mean=0.0, train_std=1.0, eval_mean=2.0, eval_std=1.4)
    return healthy(**({"drifted": (drift,), "drifted_share": 0.6, "scale_spread": 0.4, "eval_score": 0.5} | fields))


SICK = ((_moved(),),)
# Alike; drift that the model handles; other label shares (a suspicion at most); one feature.
WELL = ((healthy(),), (_moved(eval_score=0.97),), (_moved(drifted_share=0.05),))
