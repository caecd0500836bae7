"""A score compares what does not belong together.

Looks for:  the largest value of a classifier's evaluation output taken along the rows and not the classes, and choices
            compared with labels of another shape, so that every row meets every other.
Matters:    the printed score says nothing of the model, and whatever is chosen by it is chosen at random.
Try:        `argmax(dim=1)` and labels of the same shape.
Not this:   retrieval, where rows and columns are both candidates; comparisons of equal shapes.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import ModeUse
from netdyno.rules._base import rule


@rule(stage="use")
def wrong_metric_axis(use: ModeUse) -> Finding | None:
    if use.crossed:
        shapes = " with ".join(str(list(shape)) for shape in use.crossed_shapes)
        says = f"a score compares choices and labels of different shapes ({shapes}), each row with each other, {use.crossed} times"
        fix, where = (
            "give choices and labels the same shape, e.g. by `labels.squeeze(1)`, before they are compared",
            use.crossed_where,
        )
    elif use.wrong_axis:
        says = f"classes are chosen along axis 0 of an output of shape {list(use.axis_shape)}, which is the batch, {use.wrong_axis} times"
        fix, where = "take the largest value over the classes: `argmax(dim=1)`", use.axis_where
    else:
        return None
    return Finding(
        says=says,
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={"wrong_axis": float(use.wrong_axis), "crossed": float(use.crossed)},
        fix=fix,
        where=where,
        confidence=0.9,
    )


SICK = (
    (ModeUse(updates=9, models=(), crossed=12, crossed_shapes=((50,), (50, 1))),),
    (ModeUse(updates=9, models=(), wrong_axis=12, axis_shape=(10, 10)),),
)
WELL = ((ModeUse(updates=9, models=()),),)
