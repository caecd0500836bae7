"""Gradients are clipped to a small part of their norm at every step, and the model hardly learns.

Looks for:  a clipping limit below a twentieth of the usual norm that holds in nearly every look, in a run that learnt
            little and whose weights hardly moved.
Matters:    the learning rate is in effect many times lower.
Try:        a limit near the 90th percentile of the norms.
Not this:   a limit that holds often in a run that learns, and Adam, which takes the clipped scale out again.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Clipping, Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    curve,
    ends,
    learns_little,
    longest,
    matrices,
    middle,
    seen,
    stepper,
    stepper_of,
    tightly_clipped,
    weight,
)
from netdyno.rules._remedies import remedy

# Steps that train move a weight by about a thousandth of its size. Where they are clipped and still a fifth of that, others are at fault.
SMALL = 2e-4
NEAR = 0.1  # a random matrix that moved by less than a tenth of its size still computes about what it did


@rule(suggests=(), stage="settings")
def tiny_clip(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    share = tightly_clipped(gradients)
    if course is None or stepper is None or share is None or not learns_little(course, stepper):
        return None
    moved = middle([one.moved for one in matrices(gradients, stepper)])
    ratio = middle([one.ratio for one in matrices(gradients, stepper) if one.ratio is not None])
    if moved is None or moved > NEAR or (ratio is not None and ratio > SMALL):
        return None
    clip = min(gradients.clips, key=lambda one: one.limit / one.norm if one.norm else 1.0)
    at = ends(course)
    return Finding(
        says=f"gradients with a norm of {clip.norm:.3g} are clipped to {clip.limit:g} in {clip.clipped} of {clip.looks} looks: steps are"
        f" {share:.2%} of what they would be, and the loss went from {at.start:.3g} to {at.last:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"limit": clip.limit, "norm": clip.norm, "clipped": clip.clipped / clip.looks, "moved": moved},
        fix=f"raise the limit to about {2 * clip.norm:.2g}",
        where=clip.where,
        confidence=0.9,
        remedies=remedy("leave-clipping-out", factor=2 * clip.norm / clip.limit) if clip.limit else (),
    )


_TIGHT = (Clipping(where=Place(file="train.py", line=41), looks=12, clipped=12, limit=0.001, norm=2.0),)
_NEAR = (weight(moved=0.01, ratio=2e-6), weight("head.weight", moved=0.02, ratio=3e-6))
_STEADY = (weight(moved=0.05, ratio=6e-4), weight("head.weight", moved=0.06, ratio=5e-4))
_SGD = (stepper(kind="SGD"),)
SICK = ((seen(*_NEAR, steppers=_SGD, clips=_TIGHT), curve(*STAYS, kind="SGD")),)
# It learns all the same; a usual limit; weights moved, so something else is wrong; a recurrent network whose clipped steps are
# of a usual size.
WELL = (
    (seen(*_NEAR, steppers=_SGD, clips=_TIGHT), curve(*FALLS, kind="SGD")),
    (seen(*_NEAR, clips=(Clipping(where=None, looks=12, clipped=11, limit=1.0, norm=2.0),)), curve(*STAYS)),
    (seen(clips=_TIGHT), curve(*STAYS)),
    (
        seen(*_STEADY, steppers=_SGD, clips=(Clipping(where=None, looks=5, clipped=5, limit=1.0, norm=54.0),)),
        curve(*STAYS, kind="SGD"),
    ),
)
