"""Arrays as a View: what they hold is told by their shape, and what a file of arrays holds by its names."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from netdyno.audits._base import Array, Part, View
from netdyno.errors import TargetError
from netdyno.records.audit import Modality

# The names under which splits are kept, the first of each pair for inputs.
SPLITS = {
    "train": ("x_train", "y_train"),
    "val": ("x_val", "y_val"),
    "test": ("x_test", "y_test"),
}
ALIASES = {"valid": "val", "validation": "val", "dev": "val"}
# Pictures have at least so many pixels a side, and a row of sensor values rarely one or three of so large planes.
LEAST_SIDE = 4
# Labels beyond are ids or hashes of something, and nothing counts them.
MOST_CLASSES = 10_000
# Whole numbers with more values than this, or nearly as many as rows, are amounts and no classes.
MOST_LEVELS = 50
MOST_BYTES = (
    256 * 2**20
)  # of one split as it is read: audits hold it as float64 too, and fewer large pictures say as much


def opened(path: Path, *, sample: int, seed: int) -> View:
    """The splits of an .npz file: `x_train`, `y_train` and the same of `val` and `test`. Raises TargetError."""
    with _loaded(path) as file:
        names = {_plain(name): name for name in file.files}
        if "x_train" not in names and "x" not in names:
            raise TargetError(
                f"cannot look at `{path}`",
                because=f"it has no array `x_train`; it has: {', '.join(sorted(file.files)) or 'nothing'}",
                hint="save it with np.savez(path, x_train=…, y_train=…, x_test=…, y_test=…)",
            )
        if "x_train" not in names:
            names |= {"x_train": names["x"]} | ({"y_train": names["y"]} if "y" in names else {})
        chance = np.random.default_rng(seed)
        found = {
            split: _part(path, split, (file[names[x]], file[names[y]] if y in names else None), sample, chance)
            for split, (x, y) in SPLITS.items()
            if x in names
        }
    return view_of(str(path), found, seed=seed, notes={"source": "arrays"})


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise TargetError(
            f"cannot read `{path}`",
            because=f"{error}",
            hint="save plain arrays with np.savez(path, x_train=…, y_train=…)",
        ) from error


def _plain(name: str) -> str:
    kind, _, split = name.lower().partition("_")
    return f"{kind}_{ALIASES.get(split, split)}" if split else kind


def _part(path: Path, split: str, held: tuple[Array, Array | None], sample: int, chance: np.random.Generator) -> Part:
    x, y = held
    if y is not None and len(x) != len(y):
        raise TargetError(
            f"cannot look at `{path}`",
            because=f"`x_{split}` has {len(x)} rows and `y_{split}` has {len(y)}",
            hint="inputs and labels need one row per sample",
        )
    rows = chosen(len(x), sample, chance, each=x[:1].nbytes)
    return Part(name=split, x=x[rows], y=None if y is None else y[rows], indices=rows, total=len(x))


def chosen(total: int, sample: int, chance: np.random.Generator, *, each: int = 0) -> Array:
    """Which of `total` samples are looked at, in their order. `each` is the size of one in bytes."""
    most = min(sample, max(64, MOST_BYTES // each) if each else sample)
    return np.arange(total) if total <= most else np.sort(chance.choice(total, most, replace=False))


def view_of(
    target: str,
    parts: Mapping[str, Part],
    *,
    seed: int,
    hint: Modality | None = None,
    **fields: Any,
) -> View:
    """The View of parts whose inputs are arrays or lists of texts, as they came; they are put in the form that audits know."""
    modality = hint or modality_of(parts["train"].x)
    parts = {name: _formed(part, modality) for name, part in parts.items()}
    task, names = _task(tuple(parts.values()))
    parts = {name: _labelled(part, task, names) for name, part in parts.items()}
    return View(
        target=target,
        modality=modality,
        task=task,
        parts=parts,
        classes=fields.pop("classes", names),
        seed=seed,
        **fields,
    )


def modality_of(x: Any) -> Modality:
    """What the inputs are, by type and shape.

    >>> modality_of(np.zeros((5, 28, 28))), modality_of(np.zeros((5, 3, 8, 8))), modality_of(np.zeros((5, 7)))
    ('images', 'images', 'table')
    """
    if isinstance(x, list) or np.asarray(x).dtype.kind in "US":
        return "text"
    shape = np.asarray(x).shape[1:]
    if len(shape) == 3 and min(sorted(shape)[1:]) >= LEAST_SIDE and (shape[0] in {1, 3, 4} or shape[2] in {1, 3, 4}):
        return "images"
    # A square of equal sides is a picture without a place for its channel; what else has two dimensions has time in one.
    if len(shape) == 2 and shape[0] == shape[1] >= 2 * LEAST_SIDE:
        return "images"
    if len(shape) == 2:
        return "series"
    return "table" if len(shape) <= 1 else "tensors"


def _formed(part: Part, modality: Modality) -> Part:
    if modality == "text":
        return replace(part, x=[str(text) for text in part.x])
    x = np.asarray(part.x)
    if x.dtype == bool or (x.dtype.kind in "iu" and modality != "images"):
        x = x.astype(np.float32 if x.dtype == bool else np.float64)
    if modality == "images":
        x = first_channels(x)
    elif x.ndim == 1:
        x = x[:, None]
    return replace(part, x=x)


def first_channels(x: Array) -> Array:
    """Images as (N, C, H, W), whichever way they came; a fourth channel (how opaque a pixel is) is left out."""
    if x.ndim == 3:
        return x[:, None]
    if x.shape[1] not in {1, 3, 4} and x.shape[3] in {1, 3, 4}:
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x[:, :3]) if x.shape[1] == 4 else x


Task = Literal["classes", "numbers", "none"]


def _task(parts: tuple[Part, ...]) -> tuple[Task, tuple[str, ...]]:
    """What the targets ask for, and the names of the classes; labels that are no class numbers get some by these names."""
    labels = [part.y for part in parts if part.y is not None]
    if len(labels) < len(parts) or any(each.ndim != 1 for each in map(_flat, labels)):
        return "none", ()
    y = np.concatenate([_flat(each) for each in labels])
    if y.dtype.kind not in "iub":
        return ("classes", tuple(map(str, np.unique(y)))) if y.dtype.kind in "USO" else ("numbers", ())
    levels = np.unique(y)
    if y.dtype.kind != "b" and (
        len(levels) > MOST_CLASSES or (len(levels) > MOST_LEVELS and len(levels) > len(y) / 10)
    ):
        return "numbers", ()
    if y.dtype.kind == "b" or levels[0] < 0 or levels[-1] > MOST_CLASSES:
        return "classes", tuple(map(str, levels))
    return "classes", tuple(map(str, range(int(levels[-1]) + 1)))


def _flat(y: Array) -> Array:
    """Labels of one column lose its dimension; one-hot rows become their class."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    if y.ndim == 2 and y.shape[1] > 1 and y.size and ((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all():
        return y.argmax(1)
    return y


def _labelled(part: Part, task: Task, names: tuple[str, ...]) -> Part:
    if task == "none" or part.y is None:
        return replace(part, y=None)
    y = _flat(part.y)
    if task == "numbers":
        return replace(part, y=y.astype(np.float64))
    if y.dtype.kind in "iu" and not (y.size and y.min() < 0) and names[:1] == ("0",):
        return replace(part, y=y.astype(np.int64))
    place = {name: number for number, name in enumerate(names)}
    return replace(part, y=np.array([place[str(label)] for label in y], dtype=np.int64))
