"""A mark that only training has gives the answer away.

Looks for:  a column (or pixel) that by itself explains most of the target in training and next to nothing in another split, where
            the other columns keep what they explain.
Matters:    the model learns the mark instead of the thing, and is lost where the mark is missing.
Try:        remove the mark from training, or cut it out of all inputs; look where the samples of each class come from.
Not this:   a column that tells everywhere (`leaked-target`), one that tells as much elsewhere on another scale (`covariate-shift`).
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._columns import Alone, Columns, columns, within
from netdyno.audits._features import named_column
from netdyno.audits._learners import others
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A mark is worth learning when it explains more than half; a third less elsewhere is no chance with 20 rows and more.
TELLS, LOST = 0.6, 0.4
# Ordinary columns of one set differ little in what they tell; a mark stands out.
AHEAD = 0.15
# Where other columns lose half of what they tell as well, it is the split and not the column.
KEPT = 0.5


@audit(stage="data")
def shortcut_feature(view: View) -> Finding | None:
    others(view)
    found = columns(view)
    lost = [one for one in found.best if one.elsewhere and one.explains >= TELLS and _gone(view, one)]
    if not found.best[:1] or not found.best[0].elsewhere:
        raise Skip("no other split has enough targets")
    if not lost or not _stands_out(found, lost):
        return None
    one = lost[0]
    split, there = min(one.elsewhere.items(), key=lambda item: item[1])
    name = _place(view, one.number)
    return wrong(
        f"{name} explains {one.explains:.0%} of the target in training and {max(there, 0.0):.0%} in {split}",
        fix=f"remove the mark at {name} from training's inputs, or leave it out of all",
        because={"in_training": one.explains, f"in_{split}": there, "columns": float(len(lost))},
        confidence=0.85,
        layer="generalisation",
        explains=("covariate-shift",),
    )


def _gone(view: View, one: Alone) -> bool:
    """Whether another split has not got it: neither by what training learned nor by what can be learned there."""
    split, there = min(one.elsewhere.items(), key=lambda item: item[1])
    return one.explains - there >= LOST and one.explains - within(view, view.parts[split], one.number) >= LOST


def _stands_out(found: Columns, lost: list[Alone]) -> bool:
    """Whether the marks tell more than the columns that are no marks, and those keep what they tell."""
    marks = {one.number for one in lost}
    kept = [one for one in found.best if one.number not in marks]
    if not kept:  # all of the best few are marks (a patch of pixels): then the rest is what the first look says
        rest = np.sort(found.rough[np.isfinite(found.rough)])[::-1][len(lost) :]
        return bool(len(rest)) and float(np.median(rest)) < lost[0].explains - AHEAD
    best = kept[0]
    alike = min(best.elsewhere.values(), default=1.0) >= KEPT * best.explains - 0.1
    # A value for each class is no measured quantity: it need not tell more than others to be a mark.
    return alike and (lost[0].tight or best.explains < lost[0].explains - AHEAD)


def _place(view: View, number: int) -> str:
    if view.modality != "images":
        return named_column(view, number)
    _, channels, height, width = np.shape(view.train.x)
    channel, pixel = divmod(number, height * width)
    where = f"the pixel in row {pixel // width}, column {pixel % width}"
    return where if channels == 1 else f"{where} of channel {channel}"


def _marked(part: Part) -> Part:
    assert part.y is not None
    x = np.array(part.x)
    if x.ndim == 4:
        x[:, :, :2, :2] = (part.y / 4)[:, None, None, None]
    else:
        x[:, 5] = part.y
    return replace(part, x=x)


def _blank(part: Part) -> Part:
    x = np.array(part.x)
    x[:, 5] = 0.0
    return replace(part, x=x)


SICK = (
    lambda: specimen("images", train=_marked),
    lambda: specimen("table", train=_marked, val=_blank),
    lambda: specimen("table", train=_marked),
)
# No mark; the mark is everywhere (a leak); another spread of all columns.
WELL = (
    lambda: specimen("images"),
    lambda: specimen("table"),
    lambda: specimen("table", train=_marked, val=_marked),
    lambda: specimen("table", val=lambda part: replace(part, x=3 * np.asarray(part.x) + 1)),
)
