"""How two ways from the same raw records to inputs differ: an order of channels, a scale, a layout, a way of resizing, a side of padding."""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Of the spread of the inputs; a byte's rounding in 0…1 with a spread of a quarter is 1.6 %, and float arithmetic far less.
SAME = 0.02
# What a scale and an offset leave of the differences when they are all there is.
LEFT = 0.02
# Two ways of resizing leave pictures that go with each other.
ALIKE = 0.8
# Factors that lie between the ranges that pixels are kept in: 0…1, -1…1, 0…255.
RANGES = (255.0, 1 / 255.0, 127.5, 1 / 127.5)
CLOSE = 0.02
MOST = 32


class Difference(NamedTuple):
    """How two ways differ: `kinds` of it, in words, and the worst difference of a value on the record `record`."""

    kinds: tuple[str, ...]
    worst: float
    record: int
    says: str = ""


def differing(training: Callable[[Any], Any], serving: Callable[[Any], Any], raw: Sequence[Any]) -> Difference:
    """How two ways from the same raw records differ (ledger A-079). No kind: they don't."""
    records = list(raw)[:MOST]
    return compared([training(one) for one in records], [serving(one) for one in records])


def compared(training: Sequence[Any], serving: Sequence[Any]) -> Difference:
    """How inputs of the same records differ."""
    mine, theirs = ([_array(one) for one in side] for side in (training, serving))
    shapes = {(a.shape, b.shape) for a, b in zip(mine, theirs, strict=True) if a.shape != b.shape}
    if shapes:
        return _of_other_shape(mine, theirs, *min(shapes))
    if len({a.shape for a in mine}) > 1:  # records of any length: one after the other
        mine, theirs = ([np.concatenate([each.ravel() for each in side])] for side in (mine, theirs))
    one, other = np.stack(mine), np.stack(theirs)
    apart = np.abs(one - other).reshape(len(one), -1).max(1)
    record = int(apart.argmax())
    worst = float(apart[record])
    spread = float(one.std()) or 1.0
    if worst <= SAME * spread:
        return Difference((), worst, record)
    kinds, says = _of_tokens(one, other) or _named(one, other)
    return Difference(kinds, worst, record, says)


def _of_tokens(one: Array, other: Array) -> tuple[tuple[str, ...], str] | None:
    """Whole numbers in rows that are the same but for where the padding stands, or which end was cut off; None for anything else."""
    if one.ndim != 2 or one.shape[1] < 3 or not ((one == np.rint(one)).all() and (other == np.rint(other)).all()):
        return None
    pad = next((value for value in (one[0, -1], one[0, 0]) if _rolled(one, other, value)), None)
    if pad is not None:
        side = "right" if (one[:, -1] == pad).mean() > (one[:, 0] == pad).mean() else "left"
        return (("the padding is on the other side",), f" (on the {side} in training, token {pad:g})")
    return None


def _rolled(one: Array, other: Array, pad: float) -> bool:
    """True when every row is the same without `pad` at its ends, and some row has any."""
    rows = [(_stripped(a, pad), _stripped(b, pad)) for a, b in zip(one, other, strict=True)]
    return all(a.shape == b.shape and (a == b).all() for a, b in rows) and any(len(a) < one.shape[1] for a, _ in rows)


def _stripped(row: Array, pad: float) -> Array:
    real = np.flatnonzero(row != pad)
    return row[real[0] : real[-1] + 1] if len(real) else row[:0]


def _named(one: Array, other: Array) -> tuple[tuple[str, ...], str]:
    """The simplest account: a scale, then channels reversed, then both; what is left is another way of resizing, or unknown."""
    turned = other[:, ::-1] if other.ndim == 4 and other.shape[1] == 3 else None
    plain, plain_says, plain_left = _scaled(one, other)
    if plain_left >= LEFT:
        moved = _moved(one, other)
        if moved is not None:
            return moved
    if turned is not None:
        kinds, says, left = _scaled(one, turned)
        if left < LEFT and left < plain_left / 2:
            return ("the channels are reversed (RGB and BGR)", *kinds), says
    if plain_left < LEFT:
        return plain, plain_says
    ways = [("", other, plain_left)] + ([("reversed", turned, _scaled(one, turned)[2])] if turned is not None else [])
    name, _, left = min(ways, key=lambda way: way[2])
    if one.ndim == 4 and 1 - left > ALIKE**2:
        first = ("the channels are reversed (RGB and BGR)",) if name else ()
        return (*first, "it is resized or cropped in another way"), ""
    return ("the values have nothing simple in common",), ""


def _moved(one: Array, other: Array) -> tuple[tuple[str, ...], str] | None:
    """Another order of channels than the reverse, or height and width in each other's place."""
    if one.ndim != 4:
        return None
    if one.shape[1] in (3, 4):
        for order in permutations(range(one.shape[1])):
            if list(order) in (sorted(order), sorted(order, reverse=True)):
                continue
            kinds, says, left = _scaled(one, other[:, list(order)])
            if left < LEFT:
                return (f"the channels are in another order ({list(order)})", *kinds), says
    if one.shape[2] == one.shape[3]:
        kinds, says, left = _scaled(one, other.swapaxes(2, 3))
        if left < LEFT:
            return ("height and width have changed places", *kinds), says
    return None


def _scaled(one: Array, other: Array) -> tuple[tuple[str, ...], str, float]:
    """What a scale and an offset of each channel are called that make one of the other, and the share of variance they leave."""
    axis = 1 if one.ndim > 1 else 0
    fits = (
        [_line(np.take(one, at, axis), np.take(other, at, axis)) for at in range(one.shape[axis])]
        if one.ndim == 4
        else [_line(one, other)]
    )
    left = max(fit[2] for fit in fits)
    factors, offsets = np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits])
    spread = float(one.std()) or 1.0
    same = np.abs(factors - 1).max() < CLOSE and np.abs(offsets).max() < SAME * spread
    if same:
        return (), "", left
    says = f" (use = {factors[0]:.4g} x training {offsets[0]:+.4g}{', in the first channel' if len(fits) > 1 else ''})"
    if any(np.abs(factors / ratio - 1).max() < CLOSE for ratio in RANGES):
        return ("the range is another",), says, left
    return ("the normalisation is another",), says, left


def _line(one: Array, other: Array) -> tuple[float, float, float]:
    """Factor, offset and the share of variance left of `other` as a line of `one`."""
    x, y = one.ravel(), other.ravel()
    if x.std() == 0 or y.std() == 0:
        return 1.0, float(y.mean() - x.mean()), 0.0
    factor, offset = np.polyfit(x, y, 1)
    return float(factor), float(offset), float(np.var(y - factor * x - offset) / np.var(y))


def _of_other_shape(
    mine: list[Array], theirs: list[Array], shape: tuple[int, ...], other: tuple[int, ...]
) -> Difference:
    sizes = f" ({shape} in training, {other} in use)"
    worst = float(max(np.abs(one).max() for one in (*mine, *theirs)))
    if len(shape) == 3 and other == (*shape[1:], shape[0]):
        inside = compared(mine, [each.transpose(2, 0, 1) for each in theirs])
        return Difference(("the channels come last", *inside.kinds), inside.worst, inside.record, sizes)
    if len(shape) == len(other) == 3 and shape[0] == other[0]:
        return Difference(("it is resized to another size",), worst, 0, sizes)
    return Difference(("the shape is another",), worst, 0, sizes)


def _array(value: Any) -> Array:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value, dtype=np.float64)
