"""Change training images a little by chance, in a way that leaves their label true.

Helps:      small sets of images.
Costs:      time of the processor that draws them; longer training.
Not this:   a flip where left and right mean something, as in digits and letters: it is tried and told apart by its score, but look at the pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import torch

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._mixing import no_images
from netdyno.records.study import Stage
from netdyno.targets.subject import Batch

KINDS = ("affine", "flip", "off")


@dataclass(frozen=True, slots=True)
class Augmentation:
    """`kind`: "off" switches the declared augmentation off; "affine" turns by 10 degrees at most, shifts and scales by a tenth; "flip" mirrors.

    The last two take the place of what is declared.
    """

    kind: str = "affine"

    stage: ClassVar[Stage] = "data"
    reason: ClassVar[str] = "shows variants of each sample that have the same label"
    asks: ClassVar[str] = "which random changes of the inputs help?"
    effort_min: ClassVar[float] = 10.0
    order: ClassVar[int] = 40

    def refuses(self, setup: Setup) -> str | None:
        if self.kind not in KINDS:
            return f"`{self.kind}` is none of {', '.join(KINDS)}"
        if self.kind == "off":
            declared = setup.workload.augment or setup.workload.batch_augment
            return None if declared else "the workload declares no augmentation to switch off"
        return no_images(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(one for one in map(Augmentation, KINDS) if one.refuses(setup) is None)

    def turned(self, setup: Setup) -> Setup:
        if self.kind == "off":
            return replace(setup, augment=False)
        return replace(setup, augment=False, mix=(*setup.mix, Varied(self.kind)))

    def code(self) -> str:
        if self.kind == "off":
            return "augment = None"
        return f"augment = kornia.augmentation.{_CALLS[self.kind]}\nimages = augment(images)  # in training only"


_CALLS = {
    "affine": 'RandomAffine(10.0, translate=(0.1, 0.1), scale=(0.9, 1.1), padding_mode="border", p=1.0)',
    "flip": "RandomHorizontalFlip(p=0.5)",
}


@dataclass(frozen=True)
class Varied:
    """Batch -> batch: every image with its own draw."""

    kind: str

    def __call__(self, batch: Batch) -> Batch:
        with torch.no_grad():
            return (_transform(self.kind)(batch[0]), *batch[1:])


@cache
def _transform(kind: str) -> Callable[[Any], Any]:
    # kornia takes seconds to import, and most searches never ask for it.
    from kornia import augmentation

    if kind == "flip":
        return augmentation.RandomHorizontalFlip(p=0.5)
    return augmentation.RandomAffine(10.0, translate=(0.1, 0.1), scale=(0.9, 1.1), padding_mode="border", p=1.0)
