"""Real data as audits see them: the sets that come with scikit-learn, split by chance."""

from dataclasses import replace

import numpy as np
from sklearn import datasets

from netdyno.audits._base import Part, View

CLASSES = ("iris", "wine", "breast_cancer", "digits")


def real(name, *, seed=0, share=0.3):
    """One of scikit-learn's sets as a table."""
    known = getattr(datasets, f"load_{name}")()
    return split(known.data, known.target, seed=seed, share=share, task="numbers" if name == "diabetes" else "classes")


def split(x, y, *, seed=0, share=0.3, task="classes", modality="table", groups=None, cut=None):
    """Rows split by chance, or where `cut` says."""
    order = np.random.default_rng(seed).permutation(len(y))
    first = int(len(y) * (1 - share))
    chosen = cut or {"train": order[:first], "val": order[first:]}
    parts = {name: _part(name, x, y, rows, groups) for name, rows in chosen.items()}
    width = np.asarray(x).reshape(len(x), -1).shape[1]
    return View(
        target="real", modality=modality, task=task, parts=parts, seed=seed,
        columns=tuple(f"c{at}" for at in range(width)) if modality == "table" else (),
        classes=tuple(str(kind) for kind in np.unique(y)) if task == "classes" else (),
    )  # fmt: skip


def _part(name, x, y, rows, groups):
    return Part(
        name=name, x=np.asarray(x)[rows].astype(np.float32), y=np.asarray(y)[rows], indices=np.arange(len(rows)),
        total=len(rows), groups=None if groups is None else groups[rows],
    )  # fmt: skip


def changed(view, **changes):
    """The view with some parts made over: each change is a function of the part."""
    return replace(view, parts={name: changes.get(name, lambda part: part)(part) for name, part in view.parts.items()})


def everywhere(view, change):
    return changed(view, **dict.fromkeys(view.parts, change))


def column(part, number, values):
    x = np.array(part.x)
    x[:, number] = values
    return replace(part, x=x)
