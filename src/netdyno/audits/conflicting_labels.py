"""Equal inputs have different labels.

Looks for:  equal samples of different classes, more often than near neighbours that are not equal differ in class.
Matters:    no model can answer both: they cap the score and pull training in two directions.
Try:        look at the named samples and keep one label, or add the feature that tells them apart.
Not this:   tables of few levels, where the same row truly has several outcomes; wrong labels of single samples
            (see `label-errors`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import class_name, features, nearest
from netdyno.audits._pictures import shown
from netdyno.audits._repeats import distinctive, keys
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding

# One pair is somebody's slip; three rows are a habit of whoever made the data.
LEAST, SHARE = 3, 0.005
# That so many equal pairs differ while neighbours do not must have less than one chance in a thousand.
CHANCE = 0.001
# And by so much more: how often neighbours differ is itself counted on some rows only, and must be counted on enough.
MORE, DISTINCT = 0.2, 50


class Conflicts(NamedTuple):
    """Rows whose label is not the one that most equal rows have; `equal` is how many rows repeat another at all."""

    rows: Array
    twins: Array
    equal: int


@audit()
def conflicting_labels(view: View) -> Finding | None:
    """Equal training samples with different labels."""
    train = view.train
    if view.task != "classes" or train.y is None:
        raise Skip("the targets are no classes")
    found = _conflicts(view, train)
    share = len(found.rows) / max(1, len(train))
    if len(found.rows) < LEAST or share < SHARE or not _beyond_nature(view, found):
        return None
    return wrong(
        f"{len(found.rows)} of {len(train)} training samples ({share:.1%}) are equal to another one that has a different label",
        fix="decide on one label for each pair, or add what tells them apart to the inputs",
        because={"share": share, "conflicts": float(len(found.rows)), "equal": float(found.equal)},
        exhibits=_exhibits(view, found),
        explains=("label-errors", "exact-duplicates"),
    )


def _conflicts(view: View, train: Part) -> Conflicts:
    assert train.y is not None
    groups: dict[bytes, list[int]] = {}
    for row, key in enumerate(keys(view, train)):
        groups.setdefault(key, []).append(row)
    pairs: list[tuple[int, int]] = []
    for rows in groups.values():
        # Against what most of them say: one odd row among many equal ones is one conflict, whichever comes first.
        labels, counts = np.unique(train.y[rows], return_counts=True)
        usual = labels[counts.argmax()]
        kept = next(row for row in rows if train.y[row] == usual)
        pairs += [(row, kept) for row in rows if train.y[row] != usual]
    odd = np.array(sorted(pairs), dtype=int).reshape(-1, 2)
    return Conflicts(odd[:, 0], odd[:, 1], len(train) - len(groups))


def _beyond_nature(view: View, found: Conflicts) -> bool:
    """Whether equal rows differ in label more often than rows that are only near do."""
    from scipy.stats import binom

    if distinctive(view, view.train, found.rows, view.train):
        return True
    usual = _neighbours_differ(view)
    if len(found.rows) / found.equal < usual + MORE:
        return False
    return bool(binom.sf(len(found.rows) - 1, found.equal, max(usual, 1 / len(view.train))) < CHANCE)


def _neighbours_differ(view: View) -> float:
    """The share of rows whose nearest row, equal ones left out, has another label."""
    rows, y = features(view)["train"], view.train.y
    assert y is not None
    _, first = np.unique(np.round(rows, 9), axis=0, return_index=True)
    if len(first) < DISTINCT:
        return 1.0  # then nothing is beyond
    _, places = nearest(rows[first], rows[first], 2)
    return float((y[first] != y[first][places[:, 1]]).mean())


def _exhibits(view: View, found: Conflicts) -> tuple[Exhibit, ...]:
    train = view.train
    assert train.y is not None
    return tuple(
        shown(view, train, row, f"labelled {class_name(view, train.y[row])}; its equal, sample {train.indices[twin]}, "
              f"{class_name(view, train.y[twin])}")
        for row, twin in zip(found.rows.tolist()[:8], found.twins.tolist()[:8], strict=True)
    )  # fmt: skip


def _relabelled(part: Part) -> Part:
    """A tenth of the samples once more, with the next label."""
    many = len(part) // 10
    assert part.y is not None
    x = part.x[:-many] + part.x[:many] if isinstance(part.x, list) else np.concatenate((part.x[:-many], part.x[:many]))
    return replace(part, x=x, y=np.concatenate((part.y[:-many], (part.y[:many] + 1) % 3)))


def _coarse(part: Part) -> Part:
    return replace(part, x=np.clip(np.round(part.x[:, :3]), -1, 1))


SICK = (
    lambda: specimen("images", train=_relabelled),
    lambda: specimen("table", train=_relabelled),
    lambda: specimen("text", train=_relabelled),
)
# No equal samples; equal rows of a coarse table, whose neighbours differ as often.
WELL = (
    lambda: specimen("images"),
    lambda: specimen("table", train=_coarse, val=_coarse, columns=("a", "b", "c")),
)
