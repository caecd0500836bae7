"""Hide a square of every training image.

Helps:      small sets of images: no single part of an image is enough.
Costs:      of an object that fits into the square nothing is left, and its label is then a lie.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._mixing import no_images
from netdyno.records.study import Stage
from netdyno.targets.subject import Batch


@dataclass(frozen=True, slots=True)
class Cutout:
    """The square has `side` times the sides of the image; a half was best on CIFAR-10, a quarter on CIFAR-100 (DeVries 2017)."""

    side: float = 0.25

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "hides part of each image, so that the rest must be enough"
    asks: ClassVar[str] = "how much of an image should be hidden?"
    effort_min: ClassVar[float] = 5.0
    order: ClassVar[int] = 42

    def refuses(self, setup: Setup) -> str | None:
        if not 0 < self.side < 1:
            return f"a square of `{self.side}` times the image hides nothing or all"
        return no_images(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (Cutout(0.25), Cutout(0.5))

    def turned(self, setup: Setup) -> Setup:
        return replace(setup, mix=(*setup.mix, Hidden(self.side)))

    def code(self) -> str:
        return (
            "images, (height, width) = images.clone(), images.shape[2:]\n"
            "for image in images:\n"
            "    row, column = int(torch.randint(height, ())), int(torch.randint(width, ()))\n"
            f"    half_rows, half_columns = round({self.side} * height) // 2, round({self.side} * width) // 2\n"
            "    image[:, max(0, row - half_rows):row + half_rows, max(0, column - half_columns):column + half_columns] = fill"
        )


@dataclass(frozen=True)
class Hidden:
    """Batch -> batch. What is hidden has the mean colour of the batch: 0 is only grey where images were normalised."""

    side: float

    def __call__(self, batch: Batch) -> Batch:
        images: Tensor = batch[0]
        rows, columns = (_within(len(images), extent, round(extent * self.side)) for extent in images.shape[-2:])
        hidden = (rows[:, :, None] & columns[:, None, :])[:, None].to(images.device)
        grey = images.mean((0, 2, 3))[:, None, None]
        return (torch.where(hidden, grey, images), *batch[1:])


def _within(count: int, extent: int, length: int) -> Tensor:
    """For each of `count` images, which of its `extent` rows lie in a stretch of `length` about a row drawn by chance."""
    start = torch.randint(extent, (count, 1)) - length // 2
    at = torch.arange(extent)
    return (at >= start) & (at < start + length)
