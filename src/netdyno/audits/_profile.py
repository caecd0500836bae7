"""What the data are: sizes, classes, how each column is spread, and the statistics to normalise with."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from netdyno.audits._base import Array, Part, View
from netdyno.records.audit import Column, DataProfile, SplitProfile

BINS = 20  # of a histogram: enough to see two humps, few enough for a line of text
MOST_COLUMNS = 64  # of a wide table the first ones; a reader has had enough, and every column is audited all the same
COMMON = 8  # values of a categorical column that are named
PIECE = 256  # samples at a time: the whole of a large split never has to be there in float64
MOST_CLASSES = 100


def profile(view: View) -> DataProfile:
    """The data in numbers; what to normalise with comes from the training split alone (ledger A-078)."""
    mean, deviation = statistics(view)
    return DataProfile(
        modality=view.modality,
        shape=() if view.modality == "text" else tuple(int(size) for size in np.asarray(view.train.x).shape[1:]),
        task=view.task,
        splits=tuple(_split(view, part) for part in view.parts.values()),
        mean=mean[:MOST_COLUMNS],
        deviation=deviation[:MOST_COLUMNS],
    )


def statistics(view: View) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the training split, per channel or column, streamed; nothing of other splits is read.

    Values that are missing or infinite are left out. Texts and categories have none; a category's place holds 0 and 1.
    """
    if view.modality == "text" or len(view.train) == 0:
        return (), ()
    count, mean, squares = 0.0, np.zeros(1), np.zeros(1)
    for piece in _pieces(view):
        # Chan, Golub and LeVeque (1979): pieces are joined without the loss of digits that sums of squares bring.
        there = np.isfinite(piece)
        many = there.sum(0)
        own = np.where(there, piece, 0.0).sum(0) / np.maximum(many, 1)
        apart = np.where(there, piece - own, 0.0)
        step = own - mean
        total = count + many
        squares = squares + (apart**2).sum(0) + step**2 * count * many / np.maximum(total, 1)
        mean = mean + step * many / np.maximum(total, 1)
        count = total
    deviation = np.sqrt(squares / np.maximum(count, 1))
    plain = [name not in view.notes.get("categories", {}) for name in view.columns] or [True] * len(mean)
    return (
        tuple(float(value) if own else 0.0 for value, own in zip(mean, plain, strict=True)),
        tuple(float(value) if own else 1.0 for value, own in zip(deviation, plain, strict=True)),
    )


def _pieces(view: View) -> Iterator[Array]:
    """The training split as rows of (channel or column) values, a piece at a time."""
    x = np.asarray(view.train.x)
    for start in range(0, len(x), PIECE):
        piece = x[start : start + PIECE].astype(np.float64)
        yield _by_column(view, piece)


def _by_column(view: View, x: Array) -> Array:
    if view.modality == "images":
        return x.transpose(0, 2, 3, 1).reshape(-1, x.shape[1])
    if view.modality == "series":
        return x.reshape(-1, x.shape[2] if x.ndim == 3 else 1)
    return x.reshape(len(x), -1)


def _split(view: View, part: Part) -> SplitProfile:
    return SplitProfile(
        name=part.name,
        samples=part.total,
        looked_at=len(part),
        classes=_classes(view, part),
        columns=tuple(_columns(view, part)) if len(part) else (),
    )


def _classes(view: View, part: Part) -> dict[str, int]:
    if view.task != "classes" or part.y is None:
        return {}
    counts = Counter(part.y.tolist())
    return {_class(view, kind): counts[kind] for kind in sorted(counts)[:MOST_CLASSES]}


def _class(view: View, kind: int) -> str:
    return view.classes[kind] if 0 <= kind < len(view.classes) else str(kind)


def _columns(view: View, part: Part) -> Iterator[Column]:
    if view.modality == "text":
        yield column("words in a text", np.array([len(text.split()) for text in part.x], dtype=np.float64))
        return
    rows = _by_column(view, np.asarray(part.x, dtype=np.float64))
    levels = view.notes.get("categories", {})
    for at, name in enumerate(_names(view, rows.shape[1])[:MOST_COLUMNS]):
        yield _category(name, rows[:, at], levels[name]) if name in levels else column(name, rows[:, at])


def _names(view: View, count: int) -> tuple[str, ...]:
    if view.columns:
        return view.columns
    if view.modality == "images":
        return ("grey",) if count == 1 else ("red", "green", "blue") if count == 3 else tuple(map(str, range(count)))
    return tuple(f"feature {at}" for at in range(count)) if count > 1 else ("values",)


def column(name: str, values: Array) -> Column:
    """One column of numbers in a few: counts, spread, skew and histogram of what is finite."""
    there = values[np.isfinite(values)]
    known = Column(name=name, count=len(values), missing=len(values) - len(there))
    if not len(there):
        return known
    # Values beyond about 1e100 have no third power in float64: their skew stays unknown.
    with np.errstate(over="ignore", invalid="ignore"):
        low, high, mean, deviation = (float(each) for each in (there.min(), there.max(), there.mean(), there.std()))
        skew = float((((there - mean) / deviation) ** 3).mean()) if deviation > 0 else 0.0
        counts, _ = (
            np.histogram(there, bins=BINS, range=(low, high)) if np.isfinite(high - low) else (np.zeros(0, int), None)
        )
    return Column(
        name=name, count=len(values), missing=known.missing, distinct=len(np.unique(there)), mean=_finite(mean),
        deviation=_finite(deviation), skew=_finite(skew), low=low, high=high, histogram=tuple(counts.tolist()),
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _category(name: str, codes: Array, levels: tuple[str, ...]) -> Column:
    there = codes[np.isfinite(codes)].astype(int)
    counts = Counter(there.tolist())
    return Column(
        name=name,
        count=len(codes),
        missing=len(codes) - len(there),
        distinct=len(counts),
        common={levels[code]: many for code, many in counts.most_common(COMMON)},
    )
