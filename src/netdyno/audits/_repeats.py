"""Samples that are equal, and whether that can be chance: shared by the audits that look for copies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, View

# Copies whose nearest stranger is so unlikely to be met by chance are distinctive. One in twenty, per row, of many rows.
CHANCE = 0.05
MOST_ASKED = 60  # rows whose strangers are looked for: their median is known well enough
MOST_COLUMNS = 256  # of a picture's pixels the liveliest: they tell two samples apart
# Fewer words than this are said again and again: "thank you", "not working".
WORDS = 6


class Twins(NamedTuple):
    """Rows of one part that have an equal row in another: both as places, in the order of the first."""

    rows: Array
    twins: Array


def keys(view: View, part: Part) -> list[bytes]:
    """What two samples share when they are equal. Texts are compared without case and spacing."""
    if view.modality == "text":
        return [" ".join(str(text).lower().split()).encode() for text in part.x]
    rows = np.ascontiguousarray(np.asarray(part.x).reshape(len(part), -1))
    if rows.dtype.kind == "f":
        rows = rows + 0.0  # minus zero is zero
    return [row.tobytes() for row in rows]


def twins(view: View, part: Part, other: Part) -> Twins:
    """The rows of `part` that are equal to a row of `other`."""
    place = {key: at for at, key in reversed(list(enumerate(keys(view, other))))}
    found = [(at, place[key]) for at, key in enumerate(keys(view, part)) if key in place]
    rows, others = zip(*found, strict=True) if found else ((), ())
    return Twins(np.array(rows, dtype=int), np.array(others, dtype=int))


def repeated(view: View, part: Part) -> Twins:
    """The rows that are equal to an earlier row of the same part, and the first of these."""
    first: dict[bytes, int] = {}
    found = []
    for at, key in enumerate(keys(view, part)):
        if first.setdefault(key, at) != at:
            found.append((at, first[key]))
    rows, others = zip(*found, strict=True) if found else ((), ())
    return Twins(np.array(rows, dtype=int), np.array(others, dtype=int))


def distinctive(view: View, part: Part, rows: Sequence[int] | Array, among: Part) -> bool:
    """Whether rows are such that nobody meets an equal one by chance.

    A chosen row and the nearest one that is not equal to it differ in some columns. The chance that two rows agree in these is
    counted for each column by itself. Where it times the number of rows is small, equality in all columns has another reason;
    in a table of few levels a stranger is one level away, and equal rows say nothing.
    """
    if len(rows) == 0:
        return False
    some = np.asarray(rows)[np.linspace(0, len(rows) - 1, min(len(rows), MOST_ASKED)).astype(int)]
    if view.modality == "text":
        return bool(np.median([len(str(part.x[at]).split()) for at in some]) >= WORDS)
    asked, strangers = part.rows[some], among.rows
    lively = (
        np.argsort(-strangers.var(0), kind="stable")[:MOST_COLUMNS]
        if strangers.shape[1] > MOST_COLUMNS
        else slice(None)
    )
    asked, strangers = np.nan_to_num(asked[:, lively]), np.nan_to_num(strangers[:, lively])
    told = _surprise(strangers)
    nearest = [_nearest(row, strangers, told) for row in asked]
    return bool(np.median(nearest) > np.log(len(strangers) / CHANCE))


def _surprise(rows: Array) -> Array:
    """Of each column, how unlikely it is that two different rows agree in it: minus the logarithm of the share of pairs."""
    distinct = np.unique(rows, axis=0)
    pairs = max(1, len(distinct) * (len(distinct) - 1) // 2)
    alike = [float((counts * (counts - 1)).sum()) / 2 for counts in map(_counts, distinct.T)]
    return -np.log(np.clip((np.array(alike) + 1) / pairs, 1e-300, 1.0))


def _counts(column: Array) -> Array:
    return np.unique(column, return_counts=True)[1]


def _nearest(row: Array, strangers: Array, told: Array) -> float:
    apart = strangers != row
    differing = apart.any(1)
    # Everybody is equal: then equality is nothing special.
    return float((apart[differing] @ told).min()) if differing.any() else 0.0
