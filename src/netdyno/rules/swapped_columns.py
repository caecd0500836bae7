"""Two columns of the evaluation data have changed places.

Looks for:  two features whose values differ between training and evaluation, and no longer do when the two are swapped.
Matters:    the model reads each of the two as the other one, and its score on these data means nothing.
Try:        select columns by name, in one order, wherever data are loaded.
Not this:   features that drift: swapping them makes it no better.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, SUSPECTED, behind, healthy, wrong


@rule(stage="data")
def swapped_columns(samples: Samples) -> Finding | None:
    if len(samples.swapped) != 2 or samples.swap_before is None or samples.swap_after is None:
        return None
    first, second = samples.swapped
    return wrong(
        f"features {first} and {second} have changed places in evaluation: their distributions differ by "
        f"{samples.swap_before:.2f}, and by {samples.swap_after:.2f} once they are swapped",
        fix=f"load the columns in one order: {first} and {second} are swapped",
        because={"distance": samples.swap_before, "distance_swapped": samples.swap_after},
        confidence=CERTAIN if behind(samples, 0.02) else SUSPECTED,
        where=samples.eval_where,
        explains=("covariate-shift", "overfitting"),
    )


SICK = ((healthy(swapped=(2, 5), swap_before=0.6, swap_after=0.05, drifted_share=0.2, eval_score=0.4),),)
WELL = ((healthy(),), (healthy(drifted_share=0.2),))
