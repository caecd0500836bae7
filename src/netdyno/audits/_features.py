"""Numbers for each sample, of every modality alike: for neighbours and two-sample tests. Computed once per View.

What is fitted here is fitted on the rows of all splits together: were it fitted on one of them, that one would look different
to whoever compares them. Nothing that is trained for a score is made from these numbers.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View

# Enough directions for neighbours to mean something, few enough for a cheap classifier.
DIRECTIONS = 32
SMALL = 16  # pixels a side of what is compared of a picture
FINE = 32  # pixels a side where copies are told from strangers
BINS = 8  # of the directions of its edges
SHINGLE = 5  # letters; shorter ones are shared by unrelated texts
Made = TypeVar("Made")


def once(make: Callable[[View], Made]) -> Callable[[View], Made]:
    """Keeps what a function made of a View as long as the View lives."""
    made: WeakKeyDictionary[View, Made] = WeakKeyDictionary()

    @wraps(make)
    def kept(view: View) -> Made:
        if view not in made:
            made[view] = make(view)
        return made[view]

    return kept


@once
def features(view: View) -> Mapping[str, Array]:
    """One row of finite numbers per sample and split, in which near means alike. Raises Skip where there is nothing."""
    if min(len(part) for part in view.parts.values()) == 0:
        raise Skip("a split is empty")
    makers = {"images": _of_images, "text": _of_texts, "series": _of_series}
    rows = makers.get(view.modality, _of_table)(tuple(view.parts.values()))
    return _shared_out(view, rows)


@once
def filled(view: View) -> Mapping[str, Array]:
    """`Part.rows` with a number in every cell: what is missing or infinite is the column's median over all splits."""
    rows = np.vstack([part.rows for part in view.parts.values()])
    return _shared_out(view, _filled(rows))


def shapes(images: Array) -> Array:
    """Small grey pictures without their brightness and contrast, one row each: near means a copy, whatever its light."""
    grey = grey_small(_finite(images), FINE).reshape(len(images), -1)
    grey = grey - grey.mean(1, keepdims=True)
    return grey / (np.linalg.norm(grey, axis=1, keepdims=True) + 1e-12)


@once
def hashes(view: View) -> Mapping[str, Array]:
    """`perceptual_hash` of every image."""
    return {name: perceptual_hash(part.x) for name, part in view.parts.items()}


def perceptual_hash(images: Array) -> Array:
    """64 bits per image: which of the slowest waves of the picture lie above their median."""
    from scipy.fft import dctn

    grey = grey_small(_finite(images), FINE)
    waves = dctn(grey, axes=(1, 2), norm="ortho")[:, :8, :8].reshape(len(grey), 64)
    # The first wave is the mean brightness: it says nothing about what is seen.
    bits = waves > np.median(waves[:, 1:], axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(np.uint64)[:, 0]


def bits_apart(one: Array, other: Array) -> Array:
    """In how many bits hashes differ.

    >>> bits_apart(np.array([3], np.uint64), np.array([1], np.uint64)).tolist()
    [1]
    """
    apart = np.bitwise_xor(one, other)
    return np.unpackbits(apart[..., None].view(np.uint8), axis=-1).sum(-1)


def nearest(of: Array, to: Array, count: int = 1) -> tuple[Array, Array]:
    """Distances and places of the `count` nearest rows of `to`, for each row of `of`; fewer where `to` has fewer."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(count, len(to)), algorithm="brute" if to.shape[1] > 15 else "auto")
    distances, places = search.fit(to).kneighbors(of)
    return distances, places


def grey_small(images: Array, side: int) -> Array:
    """Images (N, C, H, W) as grey ones of `side` by `side`, each pixel the mean of what it covers."""
    grey = np.asarray(images, dtype=np.float32).mean(1)
    return _averaged(_averaged(grey, side, 1), side, 2)


def _averaged(images: Array, side: int, axis: int) -> Array:
    size = images.shape[axis]
    if size <= side:  # too small to average: pixels are repeated
        return images.take(np.arange(side) * size // side, axis=axis)
    edges = np.arange(side) * size // side
    counts = np.diff(np.append(edges, size))
    shape = [1] * images.ndim
    shape[axis] = side
    return np.add.reduceat(images, edges, axis=axis) / counts.reshape(shape)


def _of_images(parts: tuple[Part, ...]) -> Array:
    images = np.concatenate([_finite(part.x) for part in parts])
    small = np.stack([_averaged(_averaged(images[:, at], SMALL, 1), SMALL, 2) for at in range(images.shape[1])], 1)
    pixels = small.reshape(len(small), -1)
    edges = _edges(small.mean(1))
    # Both count alike, however many numbers each has.
    return _directions(np.hstack((pixels / _spread(pixels), edges / _spread(edges))))


def _edges(grey: Array) -> Array:
    """How much edge there is in each of eight directions, in each quarter of the picture."""
    down, right = np.gradient(grey, axis=(1, 2))
    strength, angle = np.hypot(down, right), np.arctan2(down, right) % np.pi
    which = np.minimum((angle / np.pi * BINS).astype(int), BINS - 1)
    half = grey.shape[1] // 2
    found = []
    for rows in (slice(0, half), slice(half, None)):
        for columns in (slice(0, half), slice(half, None)):
            part, kinds = strength[:, rows, columns], which[:, rows, columns]
            found += [np.where(kinds == kind, part, 0).sum((1, 2)) for kind in range(BINS)]
    return np.stack(found, 1)


def _of_series(parts: tuple[Part, ...]) -> Array:
    series = _filled(np.vstack([part.rows for part in parts]))
    waves = np.abs(np.fft.rfft(series - series.mean(1, keepdims=True), axis=1))[:, 1:]
    level = np.stack((series.mean(1), series.std(1)), 1)
    return _directions(np.hstack([part / _spread(part) for part in (series, waves, level) if part.shape[1]]))


def _of_texts(parts: tuple[Part, ...]) -> Array:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [text for part in parts for text in part.x]
    try:
        words = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, SHINGLE), sublinear_tf=True, max_features=20_000)
        counts = words.fit_transform(texts)
    except ValueError as error:
        raise Skip("the texts hold no letters") from error
    count = min(DIRECTIONS, min(counts.shape) - 1)
    if count < 1:
        return _scaled(counts.toarray())
    return _scaled(TruncatedSVD(count, random_state=0).fit_transform(counts))


def _of_table(parts: tuple[Part, ...]) -> Array:
    return _scaled(_filled(np.vstack([part.rows for part in parts])))


def _directions(rows: Array) -> Array:
    from sklearn.decomposition import PCA

    count = min(DIRECTIONS, *rows.shape)
    # A constant picture has no directions at all, and PCA divides by its variance.
    if not np.ptp(rows, axis=0).any():
        return np.zeros((len(rows), 1))
    return PCA(count, random_state=0).fit_transform(np.ascontiguousarray(rows, dtype=np.float64))


def _scaled(rows: Array) -> Array:
    """By median and interquartile range; where half the values are equal, by the standard deviation."""
    low, middle, high = np.percentile(rows, (25, 50, 75), axis=0)
    width = (high - low) / 1.349  # of a normal distribution: its deviation
    width = np.where(width > 0, width, rows.std(0))
    return (rows - middle) / np.where(width > 0, width, 1.0)


def _filled(rows: Array) -> Array:
    holes = ~np.isfinite(rows)
    if not holes.any():
        return rows
    bare = np.where(holes, np.nan, rows)
    empty = holes.all(0)
    middle = np.zeros(rows.shape[1])
    middle[~empty] = np.nanmedian(bare[:, ~empty], axis=0)
    return np.where(holes, middle, rows)


def _spread(rows: Array) -> float:
    return float(np.sqrt((rows - rows.mean(0)).var(0).sum())) or 1.0


def _finite(images: Any) -> Array:
    """What is missing or infinite is black here: it has an audit of its own, and sums of the others stay finite."""
    return np.nan_to_num(np.asarray(images, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _shared_out(view: View, rows: Array) -> dict[str, Array]:
    cuts = np.cumsum([len(part) for part in view.parts.values()])[:-1]
    return dict(zip(view.parts, np.split(rows, cuts), strict=True))


def named_column(view: View, number: int) -> str:
    """What to call a column of `Part.rows`."""
    return f"`{view.columns[number]}`" if number < len(view.columns) else f"feature {number}"


def class_name(view: View, label: Any) -> str:
    """What to call a class: its name where it has one."""
    number = int(label)
    return view.classes[number] if 0 <= number < len(view.classes) else str(number)
