"""Most of what the model computes is padding.

Looks for:  texts or sequences of ids of which most positions hold the one id that fills them up.
Matters:    each padded position costs as much as a real one.
Try:        pad each batch to its own longest row, and put rows of like length together.
Not this:   short tails; an id that only ends sequences.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import healthy

# Below this, sorting rows by length wins little over padding each batch to its longest row.
MOSTLY = 0.5


@rule(stage="speed")
def padding_waste(samples: Samples) -> Finding | None:
    share = samples.pad_share
    if share is None or share < MOSTLY:
        return None
    return Finding(
        says=f"{share:.0%} of the positions that go into the model are padding (id {samples.pad_id})",
        layer="compute",
        # What is not computed for each position stays: embedding look-ups, the optimizer's step, Python.
        saves=Saving(low=0.2 * share, high=0.8 * share),
        because={"pad_share": share},
        fix="pad to the longest row of the batch, and batch rows of like length",
        where=samples.where,
        confidence=0.9,
    )


SICK = ((healthy(floating=False, pad_share=0.72, pad_id=0),),)
WELL = ((healthy(),), (healthy(floating=False, pad_share=0.2, pad_id=0),))
