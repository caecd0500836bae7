"""A feature gives the answer away in training, and means nothing in evaluation.

Looks for:  a single feature that explains most of the target in training and next to nothing of it in evaluation, and a
            score that falls from training to evaluation.
Matters:    the model takes the shortcut and learns little else.
Try:        remove the mark, or break its tie to the label.
Not this:   features that mean as much on either side; small samples.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, ENOUGH, behind, healthy, wrong

MOST, LITTLE = 0.75, 0.3


@rule(stage="data")
def shortcut_feature(samples: Samples) -> Finding | None:
    alone, held = samples.alone, samples.alone_eval
    if alone is None or held is None or samples.looked < ENOUGH or samples.eval_distinct < ENOUGH or samples.joint:
        return None
    if alone < MOST or held > LITTLE * alone or not behind(samples, 0.05) or samples.swapped:
        return None
    return wrong(
        f"feature {samples.best_feature} explains {alone:.0%} of the target in training and {held:.0%} in evaluation: the model "
        f"leans on it ({samples.train_score or 0:.0%} right in training, {samples.eval_score or 0:.0%} in evaluation)",
        fix=f"remove feature {samples.best_feature} or whatever writes the label into it",
        because={"training": alone, "evaluation": held},
        confidence=CERTAIN,
        where=samples.where,
        layer="generalisation",
        explains=("overfitting", "covariate-shift"),
    )


SICK = ((healthy(best_feature=0, alone=0.99, second=0.6, alone_eval=0.01, train_score=1.0, eval_score=0.6),),)
WELL = (
    (healthy(),),
    (healthy(alone=0.99, second=0.4, alone_eval=0.99),),
    (healthy(alone=0.8, alone_eval=0.1, eval_score=0.98),),
)
