"""A batch of one row loses its batch axis.

Looks for:  an answer to a batch of one that has fewer axes than one row of a larger batch has.
Matters:    single requests, and last batches of one row, fail or are compared with the wrong thing.
Try:        `squeeze(-1)`, or a reshape that names the axes, instead of `squeeze()`.
Not this:   models whose answers keep their axes, or whose rows are not on the first axis.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.rules._base import rule


@rule(stage="use")
def single_row_shape(answers: Consistency) -> Finding | None:
    found = [model for model in answers.models if _loses(model)]
    if not found:
        return None
    worst = max(found, key=lambda model: model.single_rows)
    return Finding(
        says=f"`{worst.model}` answers a batch of 1 row with shape {list(worst.alone_shape or ())} instead of {list(worst.row_shape or ())}"
        + (", and the script does ask for one row" if worst.single_rows else ""),
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={"axes": float(len(worst.alone_shape or ())), "expected_axes": float(len(worst.row_shape or ()))},
        fix="write `squeeze(-1)` (or the axis that is meant) instead of `squeeze()`",
        where=worst.where,
        confidence=0.85 if worst.single_rows else 0.5,
    )


def _loses(model: ModelConsistency) -> bool:
    return model.alone_shape is not None and len(model.alone_shape) < len(model.row_shape or ())


def _answer(alone: tuple[int, ...] | None, row: tuple[int, ...] | None, single: bool) -> Consistency:
    return Consistency(models=(ModelConsistency(model="Net", alone_shape=alone, row_shape=row, single_rows=single),))


SICK = ((_answer((), (1,), True),), (_answer((10,), (1, 10), False),))
WELL = ((_answer(None, None, True),), (_answer((1, 7), (1, 9), True),))
