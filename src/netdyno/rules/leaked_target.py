"""One feature gives the answer away.

Looks for:  a single feature that explains nearly all of the target, in training and in evaluation, where the next best one
            explains little.
Matters:    the score is that of this feature; where it is not known beforehand the model knows nothing.
Try:        drop the feature, and everything that is computed from the target or later than it.
Not this:   several good features; a feature that is good in training only (`shortcut-feature`).
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import ENOUGH, SURE, SUSPECTED, healthy, wrong

# Measured features explain nine tenths at best; what explains all of it was made of it.
NEARLY_ALL = 0.97
# The others must be far behind, or the task is just easy.
FAR_BEHIND = 0.8
FEATURES = 4


@rule(stage="data")
def leaked_target(samples: Samples) -> Finding | None:
    alone, second = samples.alone, samples.second
    if alone is None or second is None or samples.looked < ENOUGH or samples.features < FEATURES or samples.joint:
        return None
    if alone < NEARLY_ALL or second > FAR_BEHIND:
        return None
    if samples.alone_eval is not None and samples.alone_eval < 0.9:
        return None
    return wrong(
        f"feature {samples.best_feature} alone explains {alone:.1%} of the target; the next best explains {second:.0%}",
        fix=f"drop feature {samples.best_feature} unless it is known before the target is",
        because={"alone": alone, "second": second, "alone_in_evaluation": samples.alone_eval or 0.0},
        # Without evaluation it may as well be a mark that only training has.
        confidence=SURE if samples.alone_eval is not None else SUSPECTED,
        where=samples.whole_where or samples.where,
        layer="generalisation",
    )


SICK = ((healthy(best_feature=10, alone=0.995, second=0.35, alone_eval=0.994),),)
# Ordinary; two features of one kind; good in training only.
WELL = ((healthy(),), (healthy(alone=0.98, second=0.97),), (healthy(alone=0.99, second=0.3, alone_eval=0.02),))
