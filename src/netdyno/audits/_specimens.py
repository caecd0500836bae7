"""Healthy data to make SICK and WELL from: generated, learnable, alike in both splits, under a seed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from netdyno.audits._base import Array, Part, View
from netdyno.records.audit import Modality

TRAIN, VAL = 240, 120
SIDE = 16  # pixels of a picture
WORDS = 400  # in the vocabulary of the texts

Change = Callable[[Part], Part] | Mapping[str, Any]


def specimen(
    modality: Modality = "table",
    *,
    seed: int = 0,
    sizes: tuple[int, int] = (TRAIN, VAL),
    classes: int = 3,
    task: str = "classes",
    channels: int = 3,
    train: Change | None = None,
    val: Change | None = None,
    **fields: Any,
) -> View:
    """A healthy view of that modality. `train` and `val` change a part: a function of it, or the fields to replace.

    Everything else named is a field of the View. With `task="numbers"` the targets are a noisy sum of what the rows hold.

    >>> view = specimen("table", train={"groups": np.arange(240)})
    >>> view.train.rows.shape, view.parts["val"].name, len(view.columns)
    ((240, 7), 'val', 7)
    """
    chance = np.random.default_rng(seed)
    count = sum(sizes)
    y = chance.permutation(np.arange(count) % classes)
    makers = {"images": _images, "table": _table, "text": _texts, "series": _series, "tensors": _table}
    x = _images(chance, y, channels) if modality == "images" else makers[modality](chance, y)
    target = y if task == "classes" else _numbers(chance, y, x)
    parts = {
        "train": _changed(_part("train", x, target, np.arange(sizes[0])), train),
        "val": _changed(_part("val", x, target, np.arange(sizes[0], count)), val),
    }
    known: dict[str, Any] = {
        "target": "specimen", "modality": modality, "task": task, "parts": parts, "seed": seed,
        "columns": tuple(f"column {number}" for number in range(7)) if modality == "table" else (),
        "classes": tuple(f"kind {number}" for number in range(classes)) if task == "classes" else (),
    }  # fmt: skip
    return View(**(known | fields))


def _part(name: str, x: Any, y: Array, where: Array) -> Part:
    rows = [x[index] for index in where] if isinstance(x, list) else x[where]
    return Part(name=name, x=rows, y=y[where], indices=np.arange(len(where)), total=len(where))


def _changed(part: Part, change: Change | None) -> Part:
    if change is None:
        return part
    return change(part) if callable(change) else replace(part, **change)


def _table(chance: Any, y: Array) -> Array:
    """Five numbers that lean on the class, a heavy-tailed one that does not, and one of four levels."""
    middles = np.random.default_rng(1).normal(0.0, 1.2, (y.max() + 1, 5))
    numbers = middles[y] + chance.normal(size=(len(y), 5))
    tailed = np.exp(0.7 * chance.normal(size=(len(y), 1)))
    levels = chance.integers(0, 4, (len(y), 1))
    return np.hstack((numbers, tailed, levels)).astype(np.float32)


def _images(chance: Any, y: Array, channels: int = 3) -> Array:
    """A light disc whose place tells the class, on soft ground; warm, as most photographs are; float32 from 0 to 1."""
    count = len(y)
    turn = 2 * np.pi * y / (y.max() + 1)
    middle = SIDE / 2 - 0.5 + 4.0 * np.stack((np.sin(turn), np.cos(turn))) + chance.normal(0.0, 0.6, (2, count))
    down, right = np.mgrid[:SIDE, :SIDE]
    away = (down - middle[0][:, None, None]) ** 2 + (right - middle[1][:, None, None]) ** 2
    disc = np.exp(-away / (2 * chance.uniform(1.8, 2.6, (count, 1, 1)) ** 2))
    warm = np.array((1.0, 0.8, 0.6))[:channels] if channels > 1 else np.ones(1)
    colour = warm[None, :] * chance.uniform(0.8, 1.1, (count, channels))
    ground = _soft(chance.normal(size=(count, channels, SIDE, SIDE)))
    floor = 0.28 * warm[:, None, None] if channels > 1 else 0.25
    picture = floor + 0.5 * disc[:, None] * colour[:, :, None, None] + 0.08 * ground
    return np.clip(picture + 0.01 * chance.normal(size=picture.shape), 0.0, 1.0).astype(np.float32)


def _soft(noise: Array) -> Array:
    """Noise whose neighbours are alike, of unit spread."""
    for _ in range(3):
        noise = (noise + np.roll(noise, 1, -1) + np.roll(noise, 1, -2) + np.roll(noise, (1, 1), (-1, -2))) / 4
    return noise / noise.std()


def _texts(chance: Any, y: Array) -> list[str]:
    """Sentences of 12 to 29 made-up words, a third of them from the class's own corner of the vocabulary."""
    words = _vocabulary()
    corner = WORDS // (2 * (y.max() + 1))
    texts = []
    for kind in y:
        length = int(chance.integers(12, 30))
        own = WORDS // 2 + kind * corner + chance.integers(0, corner, length)
        shared = np.minimum(chance.zipf(1.4, length) - 1, WORDS // 2 - 1)
        texts.append(" ".join(words[index] for index in np.where(chance.random(length) < 1 / 3, own, shared)))
    return texts


def _vocabulary() -> list[str]:
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    chance = np.random.default_rng(2)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(chance.choice(syllables, chance.integers(1, 4)))] = None
    return list(found)


def _series(chance: Any, y: Array) -> Array:
    """64 steps without a trend: a wave whose period tells the class, at any phase, in noise with a short memory."""
    step = np.arange(64)
    wave = np.sin(2 * np.pi * step / (5 + 4 * y[:, None]) + chance.uniform(0, 2 * np.pi, (len(y), 1)))
    noise = chance.normal(0.0, 0.4, (len(y), 64))
    for at in range(1, 64):
        noise[:, at] += 0.5 * noise[:, at - 1]
    return (wave + noise).astype(np.float32)


def _numbers(chance: Any, y: Array, x: Any) -> Array:
    rows = np.zeros((len(y), 1)) if isinstance(x, list) else np.asarray(x, dtype=np.float64).reshape(len(y), -1)
    weights = np.random.default_rng(3).normal(size=rows.shape[1])
    told = (rows - rows.mean(0)) @ weights
    return (told / max(told.std(), 1e-9) + 0.5 * y + 0.4 * chance.normal(size=len(y))).astype(np.float32)
