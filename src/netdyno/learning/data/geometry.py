"""Whether boxes and points follow the pixels through a transform: marked pixels say where they went (ledger A-083)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels
# Takes an image (H, W) from 0 to 1 and boxes; gives both, transformed.
Transform = Callable[[Array, Sequence[Box]], tuple[Array, Sequence[Box]]]

# Interpolation blurs the edge of a marker over a pixel, and a box that is drawn around a turned one is up to a pixel larger.
ALLOWED = 2.0
# Half of the marker's light is where its edge lies after interpolation.
EDGE = 0.5
# Of a marker less than this is left in the picture: it cannot be measured.
LEAST = 0.5


class Followed(NamedTuple):
    """How far boxes are from the pixels that they were drawn around: `error` in pixels, the worst of `measured` boxes."""

    error: float
    measured: int
    worst: Box | None
    says: str

    @property
    def holds(self) -> bool:
        """Whether boxes follow their pixels."""
        return self.error <= ALLOWED


def followed(transform: Transform, *, side: int = 96, boxes: Sequence[Box] | None = None, repeats: int = 8) -> Followed:
    """Sends one light box at a time on a dark ground through the transform and compares where light and box are afterwards.

    A box that is axis-aligned around a turned one is larger than the light; only edges that the light crosses count, and for a
    light that fills its box all of them do.
    """
    asked = tuple(boxes) if boxes is not None else _boxes(side)
    found: list[tuple[float, Box]] = []
    for _ in range(repeats):
        for box in asked:
            error = _error(transform, side, box)
            if error is not None:
                found.append((error, box))
    if not found:
        return Followed(0.0, 0, None, "no marker stays in the picture: nothing could be measured")
    error, worst = max(found, key=lambda each: each[0])
    says = "boxes follow their pixels" if error <= ALLOWED else "boxes do not follow their pixels"
    return Followed(error, len(found), worst, f"{says}: up to {error:.1f} pixels apart in {len(found)} looks")


def _boxes(side: int) -> tuple[Box, ...]:
    """Some away from the middle, unlike in width and height: a mirrored or turned one is elsewhere."""
    third = side / 3
    return (
        (round(0.6 * third), round(0.9 * third), round(1.3 * third), round(1.4 * third)),
        (round(1.7 * third), round(1.2 * third), round(2.1 * third), round(1.9 * third)),
    )


def _error(transform: Transform, side: int, box: Box) -> float | None:
    image = np.zeros((side, side), np.float32)
    left, top, right, bottom = (int(edge) for edge in box)
    image[top:bottom, left:right] = 1.0
    after, moved = transform(image, [box])
    after = np.asarray(after, dtype=np.float64).reshape(np.asarray(after).shape[-2:])
    if not len(moved):
        return None
    light = after > EDGE * max(float(after.max()), 1e-9)
    # What hangs over the edge of the picture is clipped by some and kept by others.
    if after.max() <= 0 or light[0].any() or light[-1].any() or light[:, 0].any() or light[:, -1].any():
        return None
    if light.sum() < LEAST * (right - left) * (bottom - top) * 0.25:
        return None
    rows, columns = np.flatnonzero(light.any(1)), np.flatnonzero(light.any(0))
    seen = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    return float(max(abs(one - other) for one, other in zip(seen, moved[0], strict=True)))
