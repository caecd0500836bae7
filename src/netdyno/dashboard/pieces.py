"""Pieces of series as they travel to the page: thinned out, with what thinning would hide told beside them."""

from typing import Any, NamedTuple

import numpy as np
from msgspec import field

from netdyno.dashboard.listing import odd
from netdyno.records.base import Noun
from netdyno.store.journal import Run, Series, decimated

MOST_POINTS = 1500  # about two for each pixel of a wide chart; more can't be seen and costs the browser time
MOST_ODD = 200


class Extreme(NamedTuple):
    """A value and the update it stands at."""

    update: float
    value: float


class Piece(Noun, frozen=True, kw_only=True):
    """The points of one series from number `start` to number `next`.

    `values` and `smooth` hold null for what is no number; `odd` says what it was: update, seconds, name.
    `low`, `high` and `count_odd` are of all points of the piece, also of those that were thinned out.
    """

    run: str
    name: str
    start: int
    next: int
    updates: list[float]
    seconds: list[float]
    values: list[float | None]
    smooth: list[float | None] | None = None
    odd: list[tuple[float, float, str]] = field(default_factory=list)
    count_odd: int = 0
    low: Extreme | None = None
    high: Extreme | None = None
    last: Extreme | None = None
    last_is: str = ""


def piece(run: Run, name: str, *, start: int = 0, points: int = MOST_POINTS, smooth: int = 1) -> Piece:
    """What a series has from number `start` on; from the beginning where it is shorter than that.

    With `smooth`, beside each point the mean of that many points before it, itself included.
    """
    length = run.length(name)
    start = 0 if start > length else max(0, start)
    # What a mean needs from before the piece is read with it.
    before = min(start, max(0, smooth - 1))
    read = run.series(name, start - before)
    whole = Series(*(column[before:] for column in read))
    kept = _kept(whole, points)
    values = whole.values
    finite = np.isfinite(values)
    strange = np.flatnonzero(~finite)
    return Piece(
        run=run.folder.name,
        name=name,
        start=start,
        next=start + len(values),
        updates=whole.updates[kept].tolist(),
        seconds=whole.seconds[kept].tolist(),
        values=_plain(values[kept]),
        smooth=_plain(trailing_mean(read.values, kept + before, width=smooth)) if smooth > 1 else None,
        odd=[
            (float(whole.updates[at]), float(whole.seconds[at]), odd(float(values[at])))
            for at in strange[_spread(len(strange), MOST_ODD)]
        ],
        count_odd=len(strange),
        low=_at(whole, np.argmin(np.where(finite, values, np.inf))) if finite.any() else None,
        high=_at(whole, np.argmax(np.where(finite, values, -np.inf))) if finite.any() else None,
        last=_at(whole, len(values) - 1) if len(values) and finite[-1] else None,
        last_is=odd(float(values[-1])) if len(values) else "",
    )


def trailing_mean(values: np.ndarray, at: np.ndarray, *, width: int) -> np.ndarray:
    """At each place, the mean of the numbers among the last `width` values; NaN where none of them is one.

    >>> trailing_mean(np.array([1.0, 3.0, 5.0]), np.array([0, 2]), width=2).tolist()
    [1.0, 4.0]
    """
    # Only where a point is kept, and each sum anew: a running sum would carry one huge value into all that follow.
    padded = np.concatenate([np.full(width - 1, np.nan), np.where(np.isfinite(values), values, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)[at]
    there = np.isfinite(windows)
    sums = np.where(there, windows, 0.0).sum(axis=1)
    counts = there.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def newest(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without histograms that a later one of the same replaces: they are the bulk of a long journal."""
    seen: dict[str, int] = {}
    for at, event in enumerate(events):
        if event["kind"] == "histogram":
            seen[str(event.get("of"))] = at
    return [
        event for at, event in enumerate(events) if event["kind"] != "histogram" or seen[str(event.get("of"))] == at
    ]


def _kept(series: Series, points: int) -> np.ndarray:
    """Numbers of the points that stay: those that `decimated` chooses."""
    places = np.arange(len(series.values), dtype=np.float64)
    return decimated(Series(places, series.seconds, series.values), points=points).updates.astype(np.int64)


def _spread(length: int, most: int) -> np.ndarray:
    """At most so many places, the first and the last among them: one that is left out lies between two that are not."""
    return np.unique(np.linspace(0, max(0, length - 1), min(length, most)).astype(np.int64))


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON has no word for NaN and infinity."""
    return [value if ok else None for value, ok in zip(values.tolist(), np.isfinite(values).tolist(), strict=True)]


def _at(series: Series, place: Any) -> Extreme:
    return Extreme(float(series.updates[place]), float(series.values[place]))
