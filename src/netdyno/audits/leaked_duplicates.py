"""Samples that are judged on were learned from: copies, exact or nearly so, lie in both splits.

Looks for:  evaluation samples with an equal or nearly equal training sample, more of them than chance or the training split's own
            repeats explain. Pictures by a perceptual hash and by their distance, tables by row, texts by shared word triples.
Matters:    on copies a model shows what it remembers; the score promises what new samples will not keep.
Try:        drop the copies from evaluation, or put all copies of one thing on the same side before splitting.
Not this:   rows of few levels that meet by chance; relatives that are no copies (see `leaked-groups`).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._features import bits_apart, features, hashes, nearest, perceptual_hash, shapes
from netdyno.audits._pictures import shown
from netdyno.audits._repeats import distinctive, twins
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding

# One copy is an accident that moves no score; three that are a per cent of the split are not.
LEAST, SHARE = 3, 0.01
# Deviations of a difference of two shares: by chance one look in four thousand goes beyond.
BEYOND = 3.5
# Pictures: bits of the hash, of 64, that a change of light, noise or compression turns. Strangers differ in 16 and more.
BITS = 6
# Distance of a near copy, in parts of the distance at which samples of this data usually have their nearest neighbour.
NEAR = 0.25
# Texts that share so many of their word triples are versions of one text (Broder's resemblance; 0.8 is what web crawlers use).
RESEMBLES = 0.8
TRIPLE = 3


class Copies(NamedTuple):
    """Rows of a part with their twin in training, `exact` or near, and the share of training rows that have a twin there too."""

    rows: Array
    twins: Array
    exact: int
    usual: float


@audit(dear=True)
def leaked_duplicates(view: View) -> Finding | None:
    """Copies across splits."""
    if not view.others:
        raise Skip("there is no second split to compare with")
    found = [(part, _copies(view, part)) for part in view.others if len(part) >= LEAST and len(view.train) >= LEAST]
    leaked = [(part, copies) for part, copies in found if _too_many(view, part, copies)]
    if not leaked:
        return None
    part, copies = max(leaked, key=lambda each: len(each[1].rows) / len(each[0]))
    share = len(copies.rows) / len(part)
    return wrong(
        f"{len(copies.rows)} of {len(part)} samples of `{part.name}` ({share:.0%}) are in `train` too: {copies.exact} equal, "
        f"{len(copies.rows) - copies.exact} nearly{_unseen(view, share)}",
        fix=f"remove them from `{part.name}`, or split again with all copies of one thing on the same side",
        because={
            "share": share,
            "exact": float(copies.exact),
            "usual": copies.usual,
            "same_label": _same_label(view, part, copies),
        },
        exhibits=_exhibits(view, part, copies),
        layer="generalisation",
        explains=("leaked-groups", "leaked-time", "exact-duplicates"),
    )


def _unseen(view: View, share: float) -> str:
    part = len(view.train) / max(1, view.train.total)
    return (
        ""
        if part > 0.99
        else f"; only {part:.0%} of `train` was looked at, so about {min(1.0, share / part):.0%} may be"
    )


def _copies(view: View, part: Part) -> Copies:
    exact = twins(view, part, view.train)
    near, usual = _near(view, part)
    pairs = dict(near) | dict(zip(exact.rows.tolist(), exact.twins.tolist(), strict=True))
    rows = sorted(pairs, key=lambda row: (row not in set(exact.rows.tolist()), row))
    return Copies(np.array(rows, dtype=int), np.array([pairs[row] for row in rows], dtype=int), len(exact.rows), usual)


def _too_many(view: View, part: Part, copies: Copies) -> bool:
    """Beyond the share of training rows that have a twin among the others; or equal without a chance to be."""
    count = len(copies.rows)
    share = count / len(part)
    if count < LEAST or share < SHARE:
        return False
    pooled = (share * len(part) + copies.usual * len(view.train)) / (len(part) + len(view.train))
    deviation = np.sqrt(pooled * (1 - pooled) * (1 / len(part) + 1 / len(view.train)))
    if share - copies.usual > max(BEYOND * deviation, SHARE):
        return True
    exact = copies.rows[: copies.exact]
    return len(exact) >= max(LEAST, SHARE * len(part)) and distinctive(view, part, exact, view.train)


def _near(view: View, part: Part) -> tuple[list[tuple[int, int]], float]:
    """Rows of a part that are nearly a training row, and the share of training rows of which another one is."""
    if view.modality == "text":
        return _resembling(view, part)
    if view.modality == "images":
        return _alike(view, part)
    rows = features(view)
    within, _ = nearest(rows["train"], rows["train"], 2)
    away, places = nearest(rows[part.name], rows["train"], 1)
    close = NEAR * float(np.median(within[:, 1]))
    pairs = [(int(row), int(places[row, 0])) for row in np.flatnonzero(away[:, 0] <= close)]
    return pairs, float((within[:, 1] <= close).mean())


def _alike(view: View, part: Part) -> tuple[list[tuple[int, int]], float]:
    """The same for pictures; one that is mirrored is a copy too, for that is how collections are made larger."""
    own, bits = shapes(view.train.x), hashes(view)["train"]
    within, neighbours = nearest(own, own, 2)
    close = NEAR * float(np.median(within[:, 1]))
    kin = (within[:, 1] <= close) & (bits_apart(bits, bits[neighbours[:, 1]]) <= BITS)
    pairs: dict[int, int] = {}
    for pictures in (part.x, np.asarray(part.x)[..., ::-1]):
        away, places = nearest(shapes(pictures), own, 1)
        near = (away[:, 0] <= close) & (bits_apart(perceptual_hash(pictures), bits[places[:, 0]]) <= BITS)
        pairs = {int(row): int(places[row, 0]) for row in np.flatnonzero(near)} | pairs
    return list(pairs.items()), float(kin.mean())


def _resembling(view: View, part: Part) -> tuple[list[tuple[int, int]], float]:
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(analyzer=_triples, binary=True)
    try:
        own = words.fit_transform(view.train.x)
    except ValueError:
        return [], 0.0
    best, places = _resemblance(words.transform(part.x), own, part.x)
    kin, _ = _resemblance(own, own, view.train.x, itself=True)
    return [(int(row), int(places[row])) for row in np.flatnonzero(best >= RESEMBLES)], float((kin >= RESEMBLES).mean())


def _triples(text: str) -> list[str]:
    words = str(text).lower().split()
    return [" ".join(words[at : at + TRIPLE]) for at in range(max(1, len(words) - TRIPLE + 1))]


def _resemblance(of: Any, to: Any, texts: Any, *, itself: bool = False) -> tuple[Array, Array]:
    """The largest share of common triples with a text of `to`, for each of `of`, and which one it is."""
    sizes = np.array([len(set(_triples(text))) for text in texts], dtype=float)
    theirs = np.asarray(to.sum(1)).ravel()
    best, places = np.zeros(of.shape[0]), np.zeros(of.shape[0], dtype=int)
    for start in range(0, of.shape[0], 256):
        common = np.asarray((of[start : start + 256] @ to.T).todense(), dtype=float)
        if itself:
            common[np.arange(len(common)), np.arange(start, start + len(common))] = 0
        joint = sizes[start : start + 256, None] + theirs[None] - common
        ratio = common / np.maximum(joint, 1)
        places[start : start + 256], best[start : start + 256] = ratio.argmax(1), ratio.max(1)
    return best, places


def _same_label(view: View, part: Part, copies: Copies) -> float:
    if part.y is None or view.train.y is None or not len(copies.rows):
        return 0.0
    return float(np.isclose(part.y[copies.rows].astype(float), view.train.y[copies.twins].astype(float)).mean())


def _exhibits(view: View, part: Part, copies: Copies) -> tuple[Exhibit, ...]:
    told: list[Exhibit] = []
    for at, (row, twin) in enumerate(zip(copies.rows.tolist()[:4], copies.twins.tolist()[:4], strict=True)):
        kind = "equal to" if at < copies.exact else "nearly"
        told.append(shown(view, part, row, f"{kind} `train` sample {view.train.indices[twin]}"))
        told.append(shown(view, view.train, twin, f"the one in `train`, of `{part.name}` sample {part.indices[row]}"))
    return tuple(told)


def _with_copies(modality: Any, noise: float = 0.0) -> View:
    """A third of the validation samples are from training, with some noise."""
    view = specimen(modality)
    val, train = view.parts["val"], view.train
    if isinstance(val.x, list):
        x: Any = [" ".join(text.split()[:-1]) if noise else text for text in train.x[:40]] + val.x[40:]
    else:
        x = val.x.copy()
        x[:40] = train.x[:40] + noise * np.random.default_rng(0).normal(size=train.x[:40].shape).astype(np.float32)
    assert train.y is not None
    assert val.y is not None
    changed = replace(val, x=x, y=np.concatenate((train.y[:40], val.y[40:])))
    return replace(view, parts={"train": train, "val": changed})


def _coarse(part: Part) -> Part:
    return replace(part, x=np.clip(np.round(part.x[:, :3]), -1, 1))


SICK = (
    lambda: _with_copies("images"),
    lambda: _with_copies("images", noise=0.01),
    lambda: _with_copies("table"),
    lambda: _with_copies("text", noise=1.0),
    lambda: _with_copies("series", noise=0.01),
)
# Different samples; three columns of three levels, where most rows have an equal one in both splits.
WELL = (
    lambda: specimen("images"),
    lambda: specimen("text"),
    lambda: specimen("table", train=_coarse, val=_coarse, columns=("a", "b", "c")),
)
