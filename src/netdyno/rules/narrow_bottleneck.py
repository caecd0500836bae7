"""A hidden layer is too narrow for the classes behind it.

Looks for:  a hidden matrix with one or two outputs in a classifier of five classes and more, whose training loss stays high.
Matters:    whatever comes behind sees one or two numbers of each sample.
Try:        a wider layer.
Not this:   a last layer, gates of one output beside other paths, a narrow layer that is learnt through, or regression.
"""

from itertools import pairwise

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    UPDATES,
    curve,
    ends,
    longest,
    matrices,
    reference,
    seen,
    stepper_of,
    weight,
)

NARROW, CLASSES = 2, 5
LEFT = 0.3


@rule(suggests=(), stage="structure")
def narrow_bottleneck(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None or (course.classes or 0) < CLASSES or course.updates < UPDATES:
        return None
    mixing = matrices(gradients, stepper)
    narrow = [
        (one, after)
        for one, after in pairwise(mixing)
        if one.shape[0] <= NARROW
        and one.module == "Linear"
        and len(after.shape) == 2
        and after.shape[1] == one.shape[0]
        and (one is mixing[0] or after is mixing[-1])  # gates beside a path lie in between
    ]
    known, at = reference(course, stepper), ends(course)
    if not narrow or known <= 0 or at.last < LEFT * known:
        return None
    one = narrow[0][0]
    return Finding(
        says=f"`{one.name}` passes only {one.shape[0]} numbers on to {course.classes} classes, and the training loss stays at {at.last:.3g} of {known:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={"width": float(one.shape[0]), "classes": float(course.classes or 0), "last_loss": at.last},
        fix="make the layer wider, at least as wide as there are classes",
        where=Place(module=one.name.rpartition(".")[0] or one.name),
        confidence=0.8,
    )


_NARROW = (weight(shape=(1, 64)), weight("head.weight", shape=(10, 1)))
SICK = ((seen(*_NARROW), curve(2.3, 2.1, 1.9, 1.8, 1.8, 1.8)),)
WELL = (
    (seen(*_NARROW), curve(*FALLS)),
    (seen(), curve(2.3, 2.1, 1.9, 1.8)),
    (seen(*_NARROW), curve(2.3, 1.8, 1.8, classes=None)),
)
