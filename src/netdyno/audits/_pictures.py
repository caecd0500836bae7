"""Samples as a reader can see them: small pictures, a line of numbers, the beginning of a text."""

import base64
import io
from typing import Any

import numpy as np

from netdyno.audits._base import Array, Part, View
from netdyno.audits._features import class_name, features
from netdyno.records.diagnosis import Exhibit

SIDE = 64  # pixels a side of a picture at least; small ones are enlarged so that their pixels can be seen
MOST_SIDE = 128
LINE = 96  # letters of a sample in words
COLUMNS = 6  # of a table's row in words
MOST_POINTS = 600  # of a split in the picture of the splits: beyond, points hide each other
MOST_NEIGHBOURS = 250  # the same of neighbours, which take a second for so many and a minute for thousands
PERPLEXITY = 30.0  # how many neighbours a point keeps: the usual number
# Of middle lightness, so that they are seen on light and on dark paper.
COLOURS = ("#3f8fe0", "#e0862a", "#2fa37a")


def shown(view: View, part: Part, row: int, says: str = "") -> Exhibit:
    """Row `row` of a part as an exhibit, named by its place in the data set."""
    index = int(part.indices[row])
    if view.modality == "images":
        return Exhibit(
            split=part.name, index=index, says=says, shows=_named(view, part, row), picture=thumbnail(part, row)
        )
    return Exhibit(split=part.name, index=index, says=says, shows=in_words(view, part, row))


def in_words(view: View, part: Part, row: int) -> str:
    """The sample in a line, with its label."""
    if view.modality == "text":
        told = " ".join(str(part.x[row]).split())
    elif view.modality == "table":
        told = ", ".join(_cell(view, at, value) for at, value in enumerate(part.rows[row][:COLUMNS]))
        told += ", …" if part.rows.shape[1] > COLUMNS else ""
    else:
        told = " ".join(f"{value:.4g}" for value in part.rows[row][: 2 * COLUMNS]) + " …"
    label = _label(view, part, row)
    room = LINE - len(label)
    return (told if len(told) <= room else f"{told[: room - 1]}…") + label


def _cell(view: View, at: int, value: float) -> str:
    name = view.columns[at] if at < len(view.columns) else str(at)
    levels = view.notes.get("categories", {}).get(name)
    if levels is not None and np.isfinite(value) and 0 <= int(value) < len(levels):
        return f"{name}={levels[int(value)]}"
    return f"{name}={value:.5g}"


def _label(view: View, part: Part, row: int) -> str:
    if part.y is None:
        return ""
    value = part.y[row]
    return f" → {class_name(view, value)}" if view.task == "classes" else f" → {float(value):.4g}"


def _named(view: View, part: Part, row: int) -> str:
    names = view.notes.get("names", {}).get(part.name)
    return f"{names[row] if names is not None else ''}{_label(view, part, row)}".strip()


def thumbnail(part: Part, row: int) -> str:
    """A PNG in base64, its values stretched from the lowest to the highest of the split."""
    image = np.nan_to_num(np.asarray(part.x[row], dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = _range(part)
    levels = np.clip((image - low) / ((high - low) or 1.0) * 255, 0, 255).astype(np.uint8)
    return png(levels if levels.shape[0] in {1, 3} else levels[:1])


def _range(part: Part) -> tuple[float, float]:
    some = np.asarray(part.x[:: max(1, len(part) // 64)], dtype=np.float64)
    finite = some[np.isfinite(some)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def png(levels: Array) -> str:
    """An image (C, H, W) of bytes as a PNG in base64, enlarged or reduced to be seen."""
    from PIL import Image

    picture = Image.fromarray(levels[0] if levels.shape[0] == 1 else np.ascontiguousarray(levels.transpose(1, 2, 0)))
    side = max(picture.size)
    if side < SIDE:
        times = -(-SIDE // side)
        picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    elif side > MOST_SIDE:
        picture.thumbnail((MOST_SIDE, MOST_SIDE))
    return _encoded(picture)


def _encoded(picture: Any) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def splits(view: View) -> str:
    """All splits in two dimensions, as a PNG in base64: a picture to look at, and no verdict rests on it (ledger A-207)."""
    from sklearn.decomposition import PCA

    chance = np.random.default_rng(view.seed)
    chosen = {name: _some(rows, chance) for name, rows in features(view).items()}
    # One wild value would press all others into a point.
    rows = np.clip(np.vstack(list(chosen.values())), -10, 10)
    flat = PCA(min(2, *rows.shape), random_state=0).fit_transform(rows)
    if flat.shape[1] < 2:
        flat = np.hstack((flat, np.zeros((len(flat), 1))))
    return _scatter(_cut(flat, chosen))


def neighbours(view: View) -> str:
    """All splits by who is near whom (t-SNE), as a PNG in base64: it draws clusters in noise too, and no verdict rests on it."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    chance = np.random.default_rng(view.seed)
    chosen = {name: _some(rows, chance, MOST_NEIGHBOURS) for name, rows in features(view).items()}
    rows = np.clip(np.vstack(list(chosen.values())), -10, 10)
    # Fifty directions hold who is near whom, and the search for neighbours in thousands would take most of the time.
    rows = PCA(min(50, *rows.shape), random_state=0).fit_transform(rows)
    tsne = TSNE(2, perplexity=min(PERPLEXITY, (len(rows) - 1) / 3), init="pca", random_state=0, n_jobs=1)
    return _scatter(_cut(tsne.fit_transform(rows), chosen))


def _cut(flat: Array, chosen: dict[str, Array]) -> dict[str, Array]:
    cuts = np.cumsum([len(part) for part in chosen.values()])[:-1]
    return dict(zip(chosen, np.split(flat, cuts), strict=True))


def _some(rows: Array, chance: np.random.Generator, most: int = MOST_POINTS) -> Array:
    return rows if len(rows) <= most else rows[chance.choice(len(rows), most, replace=False)]


def _scatter(points: dict[str, Array]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    for (name, flat), colour in zip(points.items(), COLOURS, strict=False):
        axes.scatter(flat[:, 0], flat[:, 1], s=9, alpha=0.75, color=colour, linewidths=0, label=f"{name} ({len(flat)})")
    # Grey reads on light and on dark paper.
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(frameon=False, labelcolor="#7f8fa3", loc="best", markerscale=2)
    file = io.BytesIO()
    figure.savefig(file, format="png", transparent=True)
    return base64.b64encode(file.getvalue()).decode()
