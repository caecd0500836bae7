"""A folder of images as a View: `train/CLASS/*.png` and `val/CLASS/*.png`, or `CLASS/*.png` alone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from netdyno.audits import _arrays as arrays
from netdyno.audits._base import Array, Part, View
from netdyno.errors import TargetError

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
# Pictures of several sizes are looked at in one; two that differ in size only are alike then, and that is meant.
SIDE = 64
MOST_SIDE = 128  # a picture larger than this is looked at in SIDE: nothing that is looked for needs more


def opened(folder: Path, *, sample: int, seed: int) -> View:
    """The images of a folder, the folder of each its class. Raises TargetError."""
    found = _found(folder)
    names = tuple(sorted({kind for files in found.values() for kind, _ in files}))
    chance = np.random.default_rng(seed)
    kept = {split: _some(files, sample, chance) for split, files in found.items()}
    pictures = {split: [_opened(folder / files[row][1]) for row in rows] for split, (files, rows) in kept.items()}
    alike, sizes = _alike(pictures)
    parts = {
        split: Part(
            name=split,
            x=alike[split],
            y=np.array([names.index(files[row][0]) for row in rows], dtype=np.int64),
            indices=rows,
            total=len(files),
        )
        for split, (files, rows) in kept.items()
    }
    notes = {
        "source": "folder",
        "names": {split: tuple(files[row][1] for row in rows) for split, (files, rows) in kept.items()},
        "sizes": sizes,
    }
    return arrays.view_of(str(folder), parts, seed=seed, hint="images", classes=names, notes=notes)


def _found(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """The files of each split, as (class, path below the folder), in the order of their names."""
    inside = {
        SPLITS[each.name.lower()]: each
        for each in sorted(folder.iterdir())
        if each.is_dir() and each.name.lower() in SPLITS
    }
    if "train" not in inside and inside:
        raise TargetError(
            f"cannot look at `{folder}`",
            because=f"it has {', '.join(f'`{each.name}`' for each in inside.values())} and no folder `train`",
            hint="put the images to learn from into `train/CLASS/`",
        )
    found = {split: list(_files(place, folder)) for split, place in (inside or {"train": folder}).items()}
    found = {split: found[split] for split in ("train", "val", "test") if found.get(split)}
    if not found.get("train"):
        raise TargetError(
            f"cannot look at `{folder}`",
            because="it holds no images in folders named like their classes",
            hint="lay them as `train/cat/1.png`, `val/cat/2.png`; a workload or a table is named by its file",
        )
    return found


def _files(place: Path, root: Path) -> Iterable[tuple[str, str]]:
    for kind in sorted(each for each in place.iterdir() if each.is_dir()):
        for file in sorted(kind.rglob("*")):
            if file.suffix.lower() in ENDINGS and not file.name.startswith("."):
                yield kind.name, str(file.relative_to(root))


Files = list[tuple[str, str]]


def _some(files: Files, sample: int, chance: np.random.Generator) -> tuple[Files, Array]:
    return files, arrays.chosen(len(files), sample, chance)


def _opened(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as picture:
            shown = picture.convert("L" if picture.mode in {"1", "L", "I", "I;16", "F"} else "RGB")
            if max(shown.size) > MOST_SIDE:
                shown = shown.resize((SIDE, SIDE), Image.Resampling.BOX)
            return shown
    except OSError as error:
        raise TargetError(
            f"cannot read `{path}`",
            because=f"{error}",
            hint="take the file out, or write it again: training would meet it too",
        ) from error


def _alike(pictures: dict[str, list[Any]]) -> tuple[dict[str, Array], tuple[tuple[int, int], ...]]:
    """All pictures as arrays of one shape, and the sizes they came in."""
    from PIL import Image

    everything = [picture for each in pictures.values() for picture in each]
    sizes = tuple(sorted({picture.size for picture in everything}))
    mode = "RGB" if any(picture.mode == "RGB" for picture in everything) else "L"
    to = sizes[0] if len(sizes) == 1 else (SIDE, SIDE)
    made = {
        split: np.stack(
            [np.asarray(each.convert(mode).resize(to, Image.Resampling.BOX), dtype=np.uint8) for each in held]
        )
        for split, held in pictures.items()
    }
    return {split: arrays.first_channels(each) for split, each in made.items()}, sizes
