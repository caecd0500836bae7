"""The way to an input is another one in use than in training.

Looks for:  the same raw record through both ways: channels reversed, another normalisation, another range, another size or way of
            resizing; the worst difference is told.
Matters:    a model that was judged on one kind of input answers on another: the score was never that of use.
Try:        use one function for both, and keep its numbers with the weights.
Not this:   rounding, random transforms of training (they are off here).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits._base import Array, Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding

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


@audit()
def serving_preprocess(view: View) -> Finding | None:
    serving, raw = view.notes.get("serving"), view.notes.get("raw")
    if serving is None or raw is None:
        raise Skip("no way of serving was named, or the raw records are not known")
    count = min(MOST, len(raw), len(view.train))
    training = view.notes.get("training")
    inputs = [training(raw[at]) if training is not None else view.train.x[at] for at in range(count)]
    found = compared(inputs, [serving(raw[at]) for at in range(count)])
    if not found.kinds:
        return None
    return wrong(
        f"the same record comes to another input in use than in training: {' and '.join(found.kinds)}{found.says}; values differ by up to "
        f"{found.worst:.4g}",
        fix="use one function for training and use, and keep its numbers with the weights",
        because={"worst": found.worst, "records": float(count), "record": float(found.record)},
        exhibits=(
            Exhibit(
                split="train", index=int(view.train.indices[found.record]), says="the worst of the records compared"
            ),
        ),
        layer="generalisation",
    )


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
    one, other = np.stack(mine), np.stack(theirs)
    apart = np.abs(one - other).reshape(len(one), -1).max(1)
    record = int(apart.argmax())
    worst = float(apart[record])
    spread = float(one.std()) or 1.0
    if worst <= SAME * spread:
        return Difference((), worst, record)
    kinds, says = _named(one, other)
    return Difference(kinds, worst, record, says)


def _named(one: Array, other: Array) -> tuple[tuple[str, ...], str]:
    """The simplest account: a scale, then channels reversed, then both; what is left is another way of resizing, or unknown."""
    turned = other[:, ::-1] if other.ndim == 4 and other.shape[1] == 3 else None
    plain, plain_says, plain_left = _scaled(one, other)
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


def _served(serving: Callable[[Array], Array]) -> View:
    """Raw records are bytes; training divides them by 255."""
    view = specimen("images")
    raw = [np.rint(255 * image).astype(np.uint8) for image in view.train.x]
    return specimen("images", notes={"raw": raw, "serving": serving, "training": lambda one: one / 255})


SICK = (
    lambda: _served(lambda one: one[::-1] / 255),
    lambda: _served(lambda one: one.astype(np.float32)),
    lambda: _served(lambda one: (one / 255 - 0.45) / 0.22),
)
WELL = (lambda: _served(lambda one: (one / 255).astype(np.float32)), lambda: specimen("images"))
