"""Training and evaluation inputs are scaled differently.

Looks for:  one side standardised and the other not, or a factor between the two that is the same for all features.
Matters:    the model is judged on numbers it never saw the like of; the score says nothing about it.
Try:        fit the scaling on the training data, once, and apply it to both.
Not this:   samples of another kind (features then move each its own way); small differences of small samples.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import SURE, SUSPECTED, behind, healthy, scaled_apart, wrong


@rule(stage="data")
def split_scaling(samples: Samples) -> Finding | None:
    if not scaled_apart(samples):
        return None
    ratio = samples.scale_ratio or 1.0
    side = f"only {samples.standardised}'s inputs are standardised; " if samples.standardised else ""
    return wrong(
        f"{side}evaluation's features spread {ratio:.3g} times as wide as training's, and {samples.drifted_share:.0%} of them "
        f"have another distribution",
        fix="apply the scaling fitted on the training data to the evaluation data too",
        because={"scale_ratio": ratio, "drifted_share": samples.drifted_share, "eval_score": samples.eval_score or 0.0,
                 "train_score": samples.train_score or 0.0},
        confidence=SURE if behind(samples) else SUSPECTED,
        where=samples.eval_where,
        explains=("overfitting", "covariate-shift"), remedies=remedy("scale-inputs", apart=True),
    )  # fmt: skip


SICK = (
    (
        healthy(
            standardised="training",
            scale_ratio=6.0,
            scale_spread=0.02,
            drifted_share=0.95,
            eval_score=0.7,
            eval_loss=3.0,
        ),
    ),
    (
        healthy(
            standardised="training",
            scale_ratio=40.0,
            scale_spread=1.5,
            drifted_share=1.0,
            eval_score=-80.0,
            task="numbers",
        ),
    ),
    # Training images are augmented, and few of them were looked at.
    (healthy(scale_ratio=13.4, scale_spread=0.19, drifted_share=0.75, looked=400, train_score=1.0, eval_score=0.79),),
)
# Alike; a held-out year whose features drift each its own way, little or far.
WELL = (
    (healthy(),),
    (healthy(scale_ratio=1.1, scale_spread=0.3, drifted_share=0.6, eval_score=0.8),),
    (healthy(scale_ratio=5.0, scale_spread=0.6, drifted_share=0.8, eval_score=0.7),),
)
