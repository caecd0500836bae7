"""An augmentation turns samples of one class into samples of another, and keeps the label.

Looks for:  two classes that a plain model, learned without the augmentation, takes for each other once the augmentation ran (a digit
            turned by 180 degrees: 6 and 9), far more often than before.
Matters:    the labels of such samples are wrong: what the model learns on one it must unlearn on the other.
Try:        restrict the transform to what keeps the label (turns of 15 degrees), or leave it out.
Not this:   samples that become hard but not another class; a class that swallows all others.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits._base import Array, Skip, View, audit, wrong
from netdyno.audits._features import class_name
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding
from netdyno.targets.samples import kept_randomness
from netdyno.targets.workload import seed_everything

# What the plain model must know of the samples as they are; of classes that it mixes up anyway nothing is said.
KNOWN = 0.70
# A fifth of either class taken for the other is far from what hard samples give, which go to many classes; a half is no doubt.
MISTAKEN, SURELY = 0.2, 0.5
# Of those of either class that are mistaken, nearly half go to the other: hard samples scatter.
AIMED = 0.45
ENOUGH, MOST = 12, 1200


class Mistaken(NamedTuple):
    """Two classes taken for each other: the smaller and the larger share, and the rows of the held-out samples."""

    one: int
    other: int
    least: float
    most: float
    rows: Array


@audit(modalities=("images", "series", "table"), dear=True)
def label_breaking_augmentation(view: View) -> Finding | None:
    if view.augment is None and view.batch_augment is None:
        raise Skip("no augmentation is declared")
    if view.task != "classes" or view.train.y is None:
        raise Skip("the targets are no classes")
    learn, judge = _halves(view)
    model = _plain(view, learn)
    before = model(_inputs(view, judge))
    if float(np.mean(before == view.train.y[judge])) < KNOWN:
        raise Skip("a plain model does not know the samples well enough to judge what an augmentation does to them")
    after = model(_augmented(view, judge))
    found = _worst(view.train.y[judge], before, after)
    if found is None:
        return None
    one, other = (class_name(view, kind) for kind in (found.one, found.other))
    return wrong(
        f"the augmentation makes {one} and {other} look like each other: a model learned without it takes {found.least:.0%} to "
        f"{found.most:.0%} of them for the other",
        fix=f"restrict the transform until {one} stays {one}, or leave it out",
        because={"least": found.least, "most": found.most, "judged": float(len(judge))},
        exhibits=tuple(
            shown(view, view.train, int(judge[row]), "taken for the other when augmented") for row in found.rows[:4]
        ),
        confidence=0.85 if found.least >= SURELY else 0.6,
    )


def _halves(view: View) -> tuple[Array, Array]:
    assert view.train.y is not None
    order = np.random.default_rng(view.seed).permutation(len(view.train))[:MOST]
    if np.unique(view.train.y[order]).size < 2 or len(order) < 2 * ENOUGH:
        raise Skip("there are too few samples to learn a plain model from")
    return order[::2], order[1::2]


def _inputs(view: View, rows: Array) -> Array:
    return np.asarray(view.train.x, dtype=np.float64)[rows].reshape(len(rows), -1)


def _plain(view: View, rows: Array) -> Callable[[Array], Array]:
    """Neighbours on principal directions, or a linear model: which knows more of samples it has not seen."""
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = np.nan_to_num(_inputs(view, rows)), np.asarray(view.train.y)[rows]
    directions = PCA(min(30, x.shape[1], len(x) - 1), random_state=0)
    scaled = () if view.modality == "images" else (StandardScaler(),)
    fitted = make_pipeline(*scaled, directions, KNeighborsClassifier(min(3, len(x)))).fit(x, y)
    return lambda rows: np.asarray(fitted.predict(np.nan_to_num(rows)))


def _augmented(view: View, rows: Array) -> Array:
    """The held-out samples once more, transformed as training would."""
    import torch

    with kept_randomness():
        seed_everything(view.seed)
        if view.augment is None:
            assert view.batch_augment is not None
            held = torch.from_numpy(np.asarray(view.train.x)[rows]), torch.from_numpy(np.asarray(view.train.y)[rows])
            return _flat(view.batch_augment(held)[0], len(rows))
        return np.stack([_flat(view.augment(_sample(view, int(row)))[0], 1)[0] for row in rows])


def _sample(view: View, row: int) -> Any:
    """The sample as the data set gives it, where there is one."""
    import torch

    if view.workload is not None:
        return view.workload.datasets()[0][int(view.train.indices[row])]
    assert view.train.y is not None
    return torch.from_numpy(np.asarray(view.train.x[row])), int(view.train.y[row])


def _flat(inputs: Any, count: int) -> Array:
    return np.asarray(inputs, dtype=np.float64).reshape(count, -1)


def _worst(y: Array, before: Array, after: Array) -> Mistaken | None:
    kinds = [int(kind) for kind in np.unique(y) if np.sum(y == kind) >= ENOUGH]
    pairs = [(one, other) for at, one in enumerate(kinds) for other in kinds[at + 1 :]]
    found = []
    for one, other in pairs:
        shares = [_share(y, before, after, *pair) for pair in ((one, other), (other, one))]
        if min(shares) >= MISTAKEN:
            rows = np.flatnonzero(((y == one) & (after == other)) | ((y == other) & (after == one)))
            found.append(Mistaken(one, other, min(shares), max(shares), rows))
    return max(found, key=lambda each: each.least, default=None)


def _share(y: Array, before: Array, after: Array, of: int, to: int) -> float:
    """The share of a class that the augmentation alone sends to the other; 0 where it scatters."""
    own = y == of
    gone = float(np.mean(after[own] == to))
    lost = float(np.mean(after[own] != of))
    return gone - float(np.mean(before[own] == to)) if lost and gone >= AIMED * lost else 0.0


def _turned(half: bool) -> View:
    """Discs whose place tells the class; turned by half a turn they stand in another one's place."""
    import torch

    def augment(sample: Any) -> Any:
        image, label = sample
        return (torch.rot90(image, 2, (1, 2)) if half else image + 0.02 * torch.randn_like(image)), label

    return specimen("images", classes=4, augment=augment)


SICK = (lambda: _turned(half=True),)
WELL = (lambda: _turned(half=False), lambda: replace(specimen("images"), augment=None))
