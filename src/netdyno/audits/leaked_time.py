"""Training has seen what comes after the samples it is judged on.

Looks for:  training samples later than samples of another split, where a column of times is named; in series, windows of another
            split whose values stand in training windows, shifted by some steps.
Matters:    in use the future is not known; a score that was helped by it does not come back.
Try:        cut at a moment: train before, judge after, with a gap as long as a window.
Not this:   samples of the same moment at the cut; series that repeat themselves by nature.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._learners import others, some
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A clock that is off by a few records is not a way of splitting.
SHARE = 0.02
# Equal numbers in a row: eight measured values do not repeat by accident, half a window is what neighbours share.
LEAST_RUN = 8
LEVELS = 6  # a run of fewer distinct values (a flat line, a square wave) repeats by nature
MOST = 2000


@audit(stage="data")
def leaked_time(view: View) -> Finding | None:
    judged = others(view)
    timed = [part for part in judged if view.train.times is not None and part.times is not None]
    if timed:
        return _after(view, timed)
    if view.modality == "series":
        return _overlapping(view, judged)
    raise Skip("no column of times is named")


def _after(view: View, judged: list[Part]) -> Finding | None:
    assert view.train.times is not None
    part = max(judged, key=lambda one: _later(view.train, one))
    later = _later(view.train, part)
    assert part.times is not None
    if later < SHARE:
        return None
    first = part.times.min()
    rows = np.flatnonzero(part.times < view.train.times.max())
    # Not a cut at the wrong place but no cut at all: some of everything is on both sides.
    mixed = bool(view.train.times.min() <= part.times.max())
    says = "are mixed in time with" if mixed else "come after all of"
    return wrong(
        f"{later:.0%} of the training samples are later than the first sample of {part.name} (`{_when(first)}`): they {says} its samples",
        fix="cut at a moment: train on what was before it, judge on what came after",
        because={"later": later, "rows_with_a_later_training_sample": float(len(rows))},
        exhibits=tuple(
            shown(
                view,
                part,
                int(row),
                f"at `{_when(part.times[row])}`; training goes on until `{_when(view.train.times.max())}`",
            )
            for row in rows[:8]
        ),
        confidence=0.9,
        layer="generalisation",
    )


def _when(moment: Any) -> str:
    """A time to read: seconds since 1970 that lie after 1973 as the date that was written, everything else as it is."""
    if isinstance(moment, np.floating) and 1e8 < moment < 1e10:
        return datetime.fromtimestamp(float(moment)).isoformat(" ", "seconds")  # noqa: DTZ006 - tables write local times
    return f"{moment:g}" if isinstance(moment, np.floating) else str(moment)


def _later(train: Part, part: Part) -> float:
    """The share of training samples later than the first of the part."""
    return float((train.times > np.min(part.times)).mean()) if len(part) and len(train) else 0.0  # type: ignore[arg-type,operator,union-attr]


def _overlapping(view: View, judged: tuple[Part, ...]) -> Finding | None:
    """Windows cut from one recording: what stands at the end of one stands at the beginning of another."""
    for part in judged:
        run = max(LEAST_RUN, _steps(view.train) // 2)
        if _steps(part) != _steps(view.train) or run > _steps(part):
            continue
        rows = some(len(part), MOST, view.seed)
        seen = _runs(view.train, some(len(view.train), MOST, view.seed), run)
        shared = [row for row in rows if _ends(part, row, run) & seen]
        if len(shared) > max(3, SHARE * len(rows)):
            return _told(view, part, shared, len(rows), run)
    return None


def _steps(part: Part) -> int:
    return int(np.shape(part.x)[1])


def _runs(part: Part, rows: Array, run: int) -> set[bytes]:
    """Every stretch of so many steps, moved by at least one: rows that are equal as wholes are duplicates, which is another matter."""
    found = set()
    for row in rows:
        series = np.ascontiguousarray(part.x[row])
        found |= {_key(series[at : at + run]) for at in range(len(series) - run + 1)}
    return found - {b""}


def _ends(part: Part, row: int, run: int) -> set[bytes]:
    series = np.ascontiguousarray(part.x[row])
    return {_key(series[:run]), _key(series[-run:])} - {b""}


def _key(stretch: Array) -> bytes:
    return stretch.tobytes() if len(np.unique(stretch)) >= LEVELS else b""


def _told(view: View, part: Part, shared: list[int], looked: int, run: int) -> Finding:
    return wrong(
        f"{len(shared)} of {looked} windows of {part.name} share {run} or more steps with a training window",
        fix="cut the recordings first and the windows afterwards, with a gap of one window at the cut",
        because={"windows": float(len(shared)), "share": len(shared) / looked, "steps": float(run)},
        exhibits=tuple(shown(view, part, int(row), "its beginning or end stands in training") for row in shared[:8]),
        confidence=0.9,
        layer="generalisation",
        explains=("leaked-duplicates", "leaked-groups"),
    )


def _windows(view: View, *, mixed: bool) -> View:
    """Windows of 64 steps, one every 16, of one recording."""
    chance = np.random.default_rng(view.seed)
    recording = np.cumsum(chance.normal(size=16 * 363)).astype(np.float32)
    starts = 16 * np.arange(360)
    x = np.stack([recording[start : start + 64] for start in starts])
    order = chance.permutation(360) if mixed else np.arange(360)
    cuts = {"train": order[:240], "val": order[240:] if mixed else order[244:]}
    parts = {
        name: replace(view.parts[name], x=x[rows], y=(x[rows].mean(1) > 0).astype(int), indices=np.arange(len(rows)))
        for name, rows in cuts.items()
    }
    return replace(view, parts=parts)


def _at(first: int, step: int = 1) -> dict[str, Array]:
    return {"times": first + step * np.arange(240)}


SICK = (
    lambda: specimen("table", train=_at(0), val={"times": 2 * np.arange(120)}),
    lambda: specimen("table", train=_at(500), val={"times": np.arange(120)}),
    lambda: _windows(specimen("series"), mixed=True),
)
WELL = (
    lambda: specimen("table", train=_at(0), val={"times": 239 + np.arange(120)}),
    lambda: specimen("series"),
    lambda: _windows(specimen("series"), mixed=False),
)
