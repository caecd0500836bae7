"""Labels belong to other inputs than those they stand beside.

Looks for:  training labels that the inputs say nothing about while the labels a few places further on (or those of another split) are
            told by theirs.
Matters:    there is nothing to learn: the loss stays at that of guessing, or the model learns by heart.
Try:        keep inputs and labels in one table or one list of pairs; sort, filter and shuffle them together.
Not this:   inputs that tell nothing about the target by nature; some wrong labels (`label-errors`).
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._columns import explained, target
from netdyno.audits._learners import FOLDS, near_rows, some
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

SHIFTS = (-3, -2, -1, 1, 2, 3)
# Fewer pairs say nothing about a shift.
ENOUGH, MOST = 40, 1500
# What aligned labels must be told better by: a tenth of all that can be explained, and five deviations of labels dealt out by chance.
MORE, DEVIATIONS = 0.1, 5.0
# Labels that are told half as well as others are not misaligned; runs of one class survive a shift.
HALF = 0.5
DEALS = 40


@audit(stage="data")
def misaligned_labels(view: View) -> Finding | None:
    if view.task == "none" or any(part.y is None or np.ndim(part.y) > 1 for part in view.parts.values()):
        raise Skip("there is no target, one per sample")
    usable = [part for part in view.parts.values() if len(part) >= ENOUGH]
    if not usable:
        raise Skip(f"fewer than {ENOUGH} samples")
    for part in usable:
        found = _shifted(view, part)
        if found is not None:
            return _told_shift(part, *found)
    return _one_of_two(view, usable)


def _shifted(view: View, part: Part) -> tuple[int, float, float] | None:
    """By how many places the labels of a part are off, with what the inputs tell of them there and where they stand."""
    here, null = _told(view, part, 0)
    if here > MORE and here > null:
        return None
    best = max((_told(view, part, shift)[0], shift) for shift in SHIFTS)
    there, shift = best
    # Best of six: the other five keep their chance; what is found is judged against labels dealt out by chance.
    if there < max(MORE, null) or here > HALF * there:
        return None
    return shift, there, here


def _one_of_two(view: View, usable: list[Part]) -> Finding | None:
    """One split whose inputs tell of its labels and one whose inputs do not."""
    told = {part.name: _told(view, part, 0) for part in usable}
    lost = [name for name, (share, null) in told.items() if share < min(null, MORE)]
    sound = [name for name, (share, null) in told.items() if share > max(MORE, null) and share > 3 * MORE]
    if not lost or not sound:
        return None
    bad, good = lost[0], sound[0]
    if len(view.parts[bad]) < len(view.parts[good]) / 2:
        return None  # too few rows to learn what more rows tell
    return wrong(
        f"the inputs of {good} explain {told[good][0]:.0%} of its targets, those of {bad} explain none of theirs",
        fix=f"look at how inputs and labels of {bad} are put together: one of them was sorted, filtered or shuffled alone",
        because={"explained_there": told[bad][0], "explained_here": told[good][0]},
        confidence=0.85,
        explains=("label-errors",),
    )


def _told(view: View, part: Part, shift: int) -> tuple[float, float]:
    """What neighbours explain of the targets `shift` places further on, out of fold, and the most that chance explains."""
    x, y = _pairs(view, part, shift)
    if len(y) < ENOUGH:
        return -1.0, np.inf
    classes = view.task == "classes"
    answered = _neighbours(x, y, classes)
    guess = _guess(y, classes)
    share = explained(answered, y, classes, guess)
    chance = np.random.default_rng(view.seed)
    dealt = [explained(answered, chance.permutation(y), classes, guess) for _ in range(DEALS)]
    return share, float(np.mean(dealt) + DEVIATIONS * np.std(dealt))


def _pairs(view: View, part: Part, shift: int) -> tuple[Array, Array]:
    """Inputs with the labels of the sample so many places further on in the data set, where both were read."""
    place = {int(index): row for row, index in enumerate(part.indices)}
    pairs = [(row, place[index + shift]) for index, row in place.items() if index + shift in place]
    if not pairs:
        return np.empty((0, 1)), np.empty(0)
    rows = np.array(pairs)[some(len(pairs), MOST, view.seed)]
    return near_rows(view)[part.name][rows[:, 0]], target(view, part)[rows[:, 1]]


def _neighbours(x: Array, y: Array, classes: bool) -> Array:
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    model = KNeighborsClassifier(5) if classes else KNeighborsRegressor(10)
    return cross_val_predict(model, x, y, cv=KFold(FOLDS, shuffle=True, random_state=0))


def _guess(y: Array, classes: bool) -> float:
    if not classes:
        return float(y.mean())
    kinds, counts = np.unique(y, return_counts=True)
    return float(kinds[counts.argmax()])


def _told_shift(part: Part, shift: int, there: float, here: float) -> Finding:
    way = "further on" if shift > 0 else "further back"
    return wrong(
        f"the labels of {part.name} are off by {abs(shift)}: the inputs explain {there:.0%} of the labels {abs(shift)} "
        f"{'place' if abs(shift) == 1 else 'places'} {way} and {max(here, 0.0):.0%} of their own",
        fix="keep inputs and labels together from the first line on; look for a header, a dropped row or a roll",
        because={"places": float(shift), "explained_there": there, "explained_here": here},
        explains=("label-errors",),
    )


def _rolled(part: Part, by: int = 1) -> Part:
    assert part.y is not None
    return replace(part, y=np.roll(part.y, by))


def _dealt_out(part: Part) -> Part:
    assert part.y is not None
    return replace(part, y=np.random.default_rng(5).permutation(part.y))


SICK = (
    lambda: specimen("table", train=_rolled, val=_rolled),
    lambda: specimen("images", train=lambda part: _rolled(part, -2)),
    lambda: specimen("table", sizes=(240, 240), train=_dealt_out),
)
# As they are; targets of chance in both splits.
WELL = (
    lambda: specimen("table"),
    lambda: specimen("series"),
    lambda: specimen("table", train=_dealt_out, val=_dealt_out),
    lambda: specimen("table", task="numbers"),
)
