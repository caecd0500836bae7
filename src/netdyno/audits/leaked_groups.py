"""Records of one subject lie on both sides of a split.

Looks for:  values of the group column that training and another split share. Without a group column: rows of the other split with a
            few training rows far nearer than all others, whose labels tell theirs clearly better than the next nearest do.
Matters:    the score is of subjects that the model knows.
Try:        split by subject: `GroupShuffleSplit`, `GroupKFold`, or chosen ids on one side.
Not this:   rows that are equal (`leaked-duplicates`); rows that lie close because there are many of them.
"""

import math
from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._learners import Siblings, in_groups, near_rows, others, siblings, some
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# What siblings must tell more than strangers do: points of accuracy or of explained variance, and deviations of chance.
MORE, DEVIATIONS = 0.05, 4.0
# Only the way rows lie says so: never as sure as a column that names the groups.
SUSPECTED = 0.6
MOST = 2000


@audit(stage="data")
def leaked_groups(view: View) -> Finding | None:
    judged = others(view)
    named = [part for part in judged if view.train.groups is not None and part.groups is not None]
    if named:
        return _shared(view, named)
    if view.train.y is None or np.ndim(view.train.y) > 1:
        raise Skip("no group column is named, and without targets groups cannot be told from dense rows")
    return _suspected(view, judged)


def _shared(view: View, judged: list[Part]) -> Finding | None:
    counts = {
        part.name: _known(part) & np.isin(np.asarray(part.groups), np.asarray(view.train.groups)) for part in judged
    }
    part = max(judged, key=lambda one: counts[one.name].mean())
    both = counts[part.name]
    if not both.any():
        return None
    assert part.groups is not None
    ids = np.unique(part.groups[both])
    return wrong(
        f"{both.sum()} of {len(part)} samples of {part.name} belong to groups that training has too ({len(ids)} groups, such as "
        f"`{ids[0]}`)",
        fix="split by group: `GroupShuffleSplit` or `GroupKFold` of scikit-learn",
        because={"rows": float(both.sum()), "share": float(both.mean()), "groups": float(len(ids))},
        exhibits=tuple(
            shown(view, part, int(row), f"group `{part.groups[row]}` is in training too")
            for row in np.flatnonzero(both)[:8]
        ),
        layer="generalisation",
    )


def _known(part: Part) -> Array:
    """Rows whose group is told: who left the cell empty is nobody's sibling."""
    return ~np.isin(np.asarray(part.groups).astype(str), ("", "nan", "None", "NaN", "NA"))


def _suspected(view: View, judged: tuple[Part, ...]) -> Finding | None:
    """What the distances say where nobody named a group."""
    x = near_rows(view)
    mine = some(len(view.train), MOST, view.seed)
    for part in judged:
        theirs = some(len(part), MOST, view.seed)
        found = siblings(x[part.name][theirs], x["train"][mine], same=False)
        if found is None or not in_groups(found):
            continue
        near, beyond, rows = _tell(view, part, mine, theirs, found)
        if rows < 30 or near - beyond < max(MORE, DEVIATIONS * _chance(beyond, rows)):
            continue
        return wrong(
            f"{found.share:.0%} of the samples of {part.name} seem to have siblings in training, far nearer than any other: these give the "
            f"target with {near:.0%}, the next nearest with {max(beyond, 0.0):.0%}",
            fix="if samples share a subject, a page or a recording, split by it, and name it with `--group-column`",
            because={"rows": found.share, "expected": found.expected, "siblings": near, "others": beyond},
            confidence=SUSPECTED,
            layer="generalisation",
        )
    return None


def _tell(view: View, part: Part, mine: Array, theirs: Array, found: Siblings) -> tuple[float, float, int]:
    """How well the nearest sibling and the nearest stranger tell the target of the rows that have siblings."""
    has = found.counts > 0
    rows, counts, places = found.rows[has], found.counts[has], found.places[has]
    assert view.train.y is not None
    assert part.y is not None
    y = part.y[theirs][rows]
    near, beyond = (view.train.y[mine][places[np.arange(len(rows)), at]] for at in (np.zeros_like(counts), counts))
    if view.task == "classes":
        return float((near == y).mean()), float((beyond == y).mean()), len(rows)
    spread = float(np.var(np.asarray(y, dtype=np.float64))) or 1.0
    return 1 - float(((near - y) ** 2).mean()) / spread, 1 - float(((beyond - y) ** 2).mean()) / spread, len(rows)


def _chance(share: float, rows: int) -> float:
    """The deviation of a share of so many rows."""
    share = min(max(share, 0.1), 0.9)
    return math.sqrt(share * (1 - share) / max(1, rows))


def _in_threes(part: Part) -> Part:
    return replace(part, groups=np.arange(len(part)) // 3)


def _records(*, apart: bool, seed: int = 0) -> View:
    """Subjects with five records each, whose class is the subject's own."""
    chance = np.random.default_rng(seed)
    subject = np.repeat(np.arange(80), 5)
    own = chance.normal(size=(80, 10))
    x = own[subject] + 0.1 * chance.normal(size=(400, 10))
    y = chance.integers(0, 2, 80)[subject]
    order = np.argsort(subject, kind="stable") if apart else chance.permutation(400)
    base = specimen("table", classes=2)
    cuts = {"train": order[:300], "val": order[300:]}
    parts = {
        name: Part(name=name, x=x[rows], y=y[rows], indices=np.arange(len(rows)), total=len(rows))
        for name, rows in cuts.items()
    }
    return replace(base, parts=parts, columns=tuple(f"column {at}" for at in range(10)))


SICK = (
    lambda: specimen("table", train=_in_threes, val=_in_threes),
    lambda: _records(apart=False),
)
# No groups; groups apart, named and not.
WELL = (
    lambda: specimen("table"),
    lambda: specimen(
        "table", train=_in_threes, val=lambda part: replace(part, groups=1000 + np.arange(len(part)) // 3)
    ),
    lambda: _records(apart=True),
    lambda: specimen("images"),
)
