"""What knobs that change training batches share: patches of images, labels in shares, and why a batch can have neither."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from netdyno.knobs._base import Setup
from netdyno.knobs._layers import a_batch
from netdyno.knobs._losses import no_classes
from netdyno.targets.subject import Batch, target_of

# A patch of fewer pixels than a quarter of 8 x 8 hides nothing.
SMALLEST_SIDE = 8


class Patch(NamedTuple):
    """A rectangle of pixels, cut off where the border of the image is: rows `top` to `bottom`, the last one not in it."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def area(self) -> int:
        """Its pixels, as they are after clipping."""
        return (self.bottom - self.top) * (self.right - self.left)

    def of(self, images: Tensor) -> Tensor:
        """The pixels of it, as a view."""
        return images[..., self.top : self.bottom, self.left : self.right]


def patch(height: int, width: int, side: float) -> Patch:
    """A rectangle of `side` times height and width about a pixel drawn by chance; what hangs over the border is cut off."""
    rows, columns = round(height * side), round(width * side)
    middle_row, middle_column = int(torch.randint(height, ())), int(torch.randint(width, ()))
    top, left = middle_row - rows // 2, middle_column - columns // 2
    return Patch(max(0, top), min(height, top + rows), max(0, left), min(width, left + columns))


def soft(target: Tensor, classes: int) -> Tensor:
    """Class numbers as shares of classes; shares stay as they are."""
    return target if target.is_floating_point() else F.one_hot(target, classes).to(torch.get_default_dtype())


def blended(target: Tensor, order: Tensor, kept: float, classes: int) -> Tensor:
    """`kept` of each sample's own label and the rest of the label of the sample that `order` puts beside it."""
    shares = soft(target, classes)
    return kept * shares + (1 - kept) * shares[order]


def with_parts(batch: Batch, inputs: Any, target: Any) -> Batch:
    """The batch with other inputs and another target; what lies between them stays."""
    return (inputs, *batch[1:-1], target)


def no_images(setup: Setup) -> str | None:
    """Why the first part of a batch is no batch of images, or None."""
    batch = a_batch(setup)
    if not isinstance(batch, tuple | list) or len(batch) < 2 or not isinstance(batch[0], Tensor):
        return "a batch is not (inputs, target)"
    images = batch[0]
    if images.dim() != 4 or not images.is_floating_point():
        return "the inputs are no images of floating-point numbers"
    if min(images.shape[2:]) < SMALLEST_SIDE:
        return f"images of {images.shape[2]} x {images.shape[3]} pixels are too small to cut from"
    return None


def no_single_labels(setup: Setup) -> str | None:
    """Why labels cannot be blended, or None: there must be one class per sample and a loss that takes shares of them."""
    return no_classes(setup) or (
        None if target_of(a_batch(setup)).dim() == 1 else "there is more than one class per sample"
    )
