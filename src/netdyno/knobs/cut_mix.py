"""Paste a patch of one image into another, and give the label the share of pixels that each has left.

Helps:      small sets of images with large models: no single part of an image is enough.
Costs:      training accuracy says little; needs longer training.
Exact:      the share is that of the pixels after the patch was cut off at the border, not the one that was drawn.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import classes, with_loss
from netdyno.knobs._mixing import blended, no_images, no_single_labels, patch, with_parts
from netdyno.records.study import Stage
from netdyno.targets.subject import Batch, target_of


@dataclass(frozen=True, slots=True)
class CutMix:
    """`share` of the batches are mixed; the patch's area is drawn from 0 to 1, evenly (alpha 1 in Yun 2019)."""

    share: float = 0.5

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "shows images of two classes at once, in shares that the answer has to name"
    asks: ClassVar[str] = "should images be patched together?"
    effort_min: ClassVar[float] = 10.0
    order: ClassVar[int] = 46

    def refuses(self, setup: Setup) -> str | None:
        if not 0 < self.share <= 1:
            return f"a share of `{self.share}` of the batches cannot be mixed"
        return no_images(setup) or no_single_labels(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (CutMix(0.5), CutMix(1.0))

    def turned(self, setup: Setup) -> Setup:
        return replace(with_loss(setup), mix=(*setup.mix, Mixed(classes(setup), self.share)))

    def code(self) -> str:
        return (
            f"if torch.rand(()) < {self.share}:\n"
            "    height, width = images.shape[2:]\n"
            "    order, half = torch.randperm(len(images)), float(torch.rand(())) ** 0.5 / 2\n"
            "    row, column = int(torch.randint(height, ())), int(torch.randint(width, ()))\n"
            "    rows = slice(max(0, row - int(half * height)), row + int(half * height))\n"
            "    columns = slice(max(0, column - int(half * width)), column + int(half * width))\n"
            "    patch, images = images[order][..., rows, columns], images.clone()\n"
            "    images[..., rows, columns] = patch\n"
            "    kept = 1 - patch[0, 0].numel() / (height * width)\n"
            "    labels = torch.nn.functional.one_hot(target, classes).float()\n"
            "    target = kept * labels + (1 - kept) * labels[order]"
        )


@dataclass(frozen=True)
class Mixed:
    """Batch -> batch, target in shares of classes."""

    classes: int
    share: float

    def __call__(self, batch: Batch) -> Batch:
        if float(torch.rand(())) >= self.share:
            return batch
        images, order = batch[0].clone(), torch.randperm(len(batch[0])).to(batch[0].device)
        height, width = images.shape[-2:]
        # Sides grow with the root of the area, and the area is drawn evenly.
        hole = patch(height, width, float(torch.rand(())) ** 0.5)
        hole.of(images).copy_(hole.of(batch[0])[order])
        kept = 1 - hole.area / (height * width)
        return with_parts(batch, images, blended(target_of(batch), order, kept, self.classes))
