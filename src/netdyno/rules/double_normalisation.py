"""Inputs were divided by their range twice.

Looks for:  inputs on equal steps (pixels) whose highest value is one step of the range that they should have: 16 levels
            that end at 1/16, or 256 that end at 1/255.
Matters:    inputs next to zero make every sample look alike; learning is as slow as with a rate hundreds of times smaller.
Try:        remove one of the two divisions.
Not this:   inputs of a small unit; a network that begins with a normalisation and does not mind.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# Fewer levels than a grey-scale has come about by chance.
LEVELS = 8
CLOSE = 0.05
# A model that has learnt nearly everything anyway does not mind.
LEARNT = 0.9


@rule(stage="data")
def double_normalisation(samples: Samples) -> Finding | None:
    levels, high = samples.levels, samples.high
    if not samples.floating or levels is None or levels < LEVELS or high is None or high <= 0 or samples.low != 0:
        return None
    if abs(high * levels - 1) > CLOSE:
        return None
    slow = samples.learnt is not None and samples.learnt < LEARNT
    return wrong(
        f"inputs end at {high:.4f} = 1/{levels}, with {levels} steps below: they were divided by {levels} twice, and learning "
        f"{'is slow' if slow else 'may be slow'}",
        fix=f"divide by {levels} once",
        because={"high": high, "levels": float(levels), "rms": samples.rms or 0.0},
        confidence=SURE if slow else SUSPECTED,
        where=samples.where,
        explains=("learning-rate-too-low", "unfinished-training"),
        remedies=remedy("scale-inputs"),
    )


SICK = (
    (healthy(levels=16, low=0.0, high=0.0625, rms=0.03, first_loss=2.31, last_loss=0.9),),
    (healthy(levels=255, low=0.0, high=1 / 255, rms=0.001, last_loss=2.1),),
)
# Divided once; standardised; a small unit off any lattice.
WELL = (
    (healthy(levels=16, low=0.0, high=1.0),),
    (healthy(),),
    (healthy(levels=None, low=0.0, high=0.004, last_loss=1.0),),
)
