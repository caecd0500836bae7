"""Inputs lie in another range than a network is made for.

Looks for:  pixels beyond any range of pixels, inputs of a size far from 1, pixels that were divided by their range or standardised
            twice, bytes that ran below zero and wrapped around, pictures of one split with light and dark exchanged.
Matters:    layers are initialised for inputs of size about 1: far from it one learning rate fits no layer; wrapped bytes tear
            neighbouring values apart.
Try:        bring pixels to 0…1 once, in floats, or standardise with training's own statistics; do the same for every split.
Not this:   raw bytes from 0 to 255, which a loader still scales; columns of a table, whose units are their own; small units that
            fill no range of pixels.
"""

from collections.abc import Callable

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# A byte ends at 255. Floats beyond it are pixels of no camera that was read as it is common.
BYTE = 255.0
# The root mean square for which layers are made is 1. Pixels from 0 to 16 train well; a hundredfold does not.
LARGE = 100.0
# Both ends of what was divided twice by 255 are known to three digits.
CLOSE = 0.02
# Fewer levels than a grey-scale come about by chance.
LEVELS = 8
ENOUGH = 20
# Standardised by hand: what people write into `Normalize`, as (mean, deviation) of each channel.
KNOWN = {
    "ImageNet's": ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225)),
    "a half and a half": ((0.5, 0.5),),
    "MNIST's": ((0.1307, 0.3081),),
}
# Unwrapping must take away so much of the differences between neighbours; on healthy pictures no offset takes a fifth.
TORN = 0.6
# Saturated pictures have their neighbours 0 and 255 by right.
SATURATED = 0.05
MOST_TORN = 300  # pictures, tried with 31 offsets
# Of pictures on one ground (digits, goods in a shop) it is this much; their mean is known to a level and a half.
GROUND, AGREES = 0.3, 1.5
# Two pictures' mean patterns that are each other's negative, nearly.
NEGATIVE = -0.6


@audit(modalities=("images", "series"))
def value_range(view: View) -> Finding | None:
    if len(view.train) < ENOUGH:
        raise Skip(f"fewer than {ENOUGH} training samples say too little about their range")
    looks: tuple[Callable[[View], Finding | None], ...] = (_wrapped, _twice, _beyond, _inverted)
    if view.modality == "series":
        looks = (_beyond,)
    return next((found for look in looks if (found := look(view)) is not None), None)


def _values(part: Part, most: int = 400) -> Array:
    some = np.asarray(part.x[:: max(1, len(part) // most)], dtype=np.float64)
    return np.nan_to_num(some, nan=0.0, posinf=0.0, neginf=0.0)


def _floating(part: Part) -> bool:
    return np.asarray(part.x).dtype.kind == "f"


def _beyond(view: View) -> Finding | None:
    values = _values(view.train)
    size, high = float(np.sqrt(np.mean(values**2))), float(np.abs(values).max())
    if not _floating(view.train) or size < LARGE:
        return None
    if view.modality == "images" and high <= BYTE:
        return None
    return wrong(
        f"inputs have a size of {size:.3g} instead of about 1, and reach {high:.4g}",
        fix="standardise the inputs with the training data's mean and deviation, before a network reads them",
        because={"rms": size, "highest": high},
        exhibits=(shown(view, view.train, 0),),
        # The unit of a file of numbers is the owner's: a program may still scale them.
        confidence=0.6,
    )


def _twice(view: View) -> Finding | None:
    values = _values(view.train)
    low, high = float(values.min()), float(values.max())
    if not _floating(view.train) or high <= 0:
        return None
    for name, channels in KNOWN.items():
        if _standardised_twice(values, channels):
            return wrong(
                f"pixels run from {low:.4g} to {high:.4g}: what comes of 0 to 1 when {name} mean and deviation are applied 2 times",
                fix="apply `Normalize` once",
                because={"low": low, "high": high},
                exhibits=(shown(view, view.train, 0),),
                confidence=0.9,
            )
    # From 0 to no more than a byte's smallest step, scaled once more: nothing else has pixels so small.
    if low < 0 or high > (1 + CLOSE) / BYTE or high < 1 / (8 * BYTE):
        return None
    sure = abs(high * BYTE - 1) < CLOSE or abs(high * _steps(values) - 1) < CLOSE
    return wrong(
        f"pixels end at {high:.4g}, about 1/{1 / high:.0f}: they were divided by 255 twice",
        fix="divide by 255 once",
        because={"high": high, "low": low},
        exhibits=(shown(view, view.train, 0),),
        confidence=0.85 if sure else 0.6,
    )


def _steps(values: Array) -> int:
    levels = np.unique(np.round(values.reshape(-1)[:200_000], 12))
    return len(levels) - 1 if LEVELS <= len(levels) - 1 <= BYTE else 0


def _standardised_twice(values: Array, channels: tuple[tuple[float, float], ...]) -> bool:
    if len(channels) > 1 and len(channels) != values.shape[1]:
        return False
    pairs = channels if len(channels) > 1 else channels * values.shape[1]
    ends = [[((end - mean) / deviation - mean) / deviation for end in (0.0, 1.0)] for mean, deviation in pairs]
    seen = [(values[:, at].min(), values[:, at].max()) for at in range(len(pairs))]
    return bool(np.allclose(ends, seen, rtol=0.01, atol=0.01))


def _wrapped(view: View) -> Finding | None:
    # All of them: the mean of the pictures must be known to a level.
    values = _values(view.train, len(view.train))
    values = values * BYTE if _floating(view.train) and values.min() >= 0 and values.max() <= 1 else values
    whole = np.rint(values)
    if values.min() < 0 or not 128 < values.max() <= BYTE or np.abs(values - whole).max() > 1e-3:
        return None
    if np.isin(whole, (0, 255)).mean() > SATURATED:
        return None
    torn, offset = _torn(whole[:MOST_TORN])
    ground = _ground(whole) if torn > TORN else None
    if torn > TORN and ground is None:
        return None
    told = (
        f"{offset} added to all pixels, modulo 256, takes away {1 - torn:.0%} of the differences of neighbours"
        if ground is None
        else f"{ground:.0%} of all pixels are as far below 256 as pixels that begin with them have their mean above 0"
    )
    return wrong(
        f"{told}: unsigned numbers ran below 0 and wrapped around",
        fix="convert to float (or a signed type) before subtracting",
        because={"differences_left": torn, "offset": float(offset), "ground": ground or 0.0},
        exhibits=(shown(view, view.train, 0),),
        confidence=0.9 if ground is None else 0.65,
    )


def _ground(whole: Array) -> float | None:
    """The share of the ground, where it is at the level that 0 comes to when the mean is subtracted without room for a sign."""
    counts = np.bincount(whole.astype(int).ravel(), minlength=256)
    level = int(counts.argmax())
    share = counts[level] / counts.sum()
    lifted = (whole - level) % 256
    # A ground that is anywhere else agrees with the mean once in a hundred times.
    agrees = abs(lifted.mean() - (256 - level)) <= AGREES
    return float(share) if share > GROUND and 16 <= level < 250 and agrees else None


def _torn(whole: Array) -> tuple[float, int]:
    """The differences between neighbours that an offset leaves at best, and the offset; near 1 nothing was torn."""
    as_they_are = _differences(whole)
    tried = {offset: _differences((whole + offset) % 256) for offset in range(8, 249, 8)}
    best = min(tried, key=lambda offset: tried[offset])
    return tried[best] / max(as_they_are, 1e-9), best


def _differences(x: Array) -> float:
    """The mean of squared differences: one jump over all levels weighs as much as thousands of small steps."""
    return float((np.diff(x, axis=-1) ** 2).mean() + (np.diff(x, axis=-2) ** 2).mean())


def _inverted(view: View) -> Finding | None:
    train = _values(view.train).mean(0)
    middle = train.mean()
    for part in view.others:
        if len(part) < ENOUGH or np.asarray(part.x).shape[1:] != train.shape or train.std() == 0:
            continue
        other = _values(part).mean(0)
        if other.std() == 0:
            continue
        alike = float(np.corrcoef(train.ravel(), other.ravel())[0, 1])
        if alike > NEGATIVE:
            continue
        return wrong(
            f"light and dark are exchanged in {part.name}: its mean picture is training's negative (correlation {alike:.2f}; mean "
            f"{other.mean():.3g} against {middle:.3g})",
            fix="invert one of the two, so that all splits have light and dark alike",
            because={"correlation": alike, "mean": float(other.mean()), "training_mean": float(middle)},
            exhibits=(shown(view, part, 0), shown(view, view.train, 0)),
            confidence=0.85,
            explains=("covariate-shift",),
        )
    return None


def _bytes(images: Array, less: int) -> Array:
    return (np.rint(255 * np.asarray(images)).astype(np.int64) - less) % 256


SICK = (
    lambda: _scaled(1000.0),
    lambda: _scaled(1 / 255),
    lambda: specimen("images", train=lambda part: _with(part, _bytes(part.x, 90).astype(np.uint8))),
    lambda: specimen("images", val=lambda part: _with(part, 1 - part.x)),
)
WELL = (
    lambda: specimen("images"),
    lambda: specimen("images", train=lambda part: _with(part, _bytes(part.x, 0).astype(np.uint8))),
    lambda: _scaled(255.0),
    lambda: specimen("series"),
)


def _with(part: Part, x: Array) -> Part:
    from dataclasses import replace

    return replace(part, x=x)


def _scaled(by: float) -> View:
    return specimen(
        "images",
        train=lambda part: _with(part, part.x * np.float32(by)),
        val=lambda part: _with(part, part.x * np.float32(by)),
    )
