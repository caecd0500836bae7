"""Which mean and deviation inputs are normalised with (ledger A-078)."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

# As torchvision's classification models were trained with, for pixels from 0 to 1, in RGB.
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# The sum of squares of so few samples does not say what the spread is.
FEW = 100


class Statistics(NamedTuple):
    """Mean and deviation per channel or column, of how many samples, and why these."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    samples: int
    reason: str


def chosen(train: Iterable[Any], *, pretrained: str | None = None) -> Statistics:
    """The statistics to normalise with: those of the training split, or ImageNet's where the backbone was pretrained with them.

    `train` gives samples (input first) or inputs, one at a time, of the training split alone.
    """
    if pretrained is not None and "imagenet" in pretrained.lower():
        return Statistics(IMAGENET_MEAN, IMAGENET_DEVIATION, 0, "the backbone was pretrained on ImageNet with these")
    return streamed(train)


def streamed(train: Iterable[Any]) -> Statistics:
    """Mean and deviation of each channel (of pictures) or column, in one pass and little memory, to double precision.

    Counts, means and squared distances of sample after sample are merged (Chan, Golub and LeVeque 1983), so that a large mean does not
    eat up a small spread.
    """
    count, samples = 0.0, 0
    mean = squares = torch.zeros((), dtype=torch.float64)
    for sample in train:
        values = _columns(sample)
        size = values.shape[1]
        own = values.mean(1)
        apart = own - mean
        squares = squares + ((values - own[:, None]) ** 2).sum(1) + apart**2 * (count * size / (count + size))
        mean = mean + apart * (size / (count + size))
        count, samples = count + size, samples + 1
    if not samples:
        raise ValueError("there is no sample to take statistics of")
    deviation = (squares / count).sqrt()
    # A column that never changes is left as it is: nothing is divided by 0.
    deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    few = f"; {samples} samples are few, and the deviation is known roughly" if samples < FEW else ""
    return Statistics(
        tuple(mean.tolist()),
        tuple(deviation.tolist()),
        samples,
        f"its own statistics, of the {samples} training samples{few}",
    )


def _columns(sample: Any) -> Tensor:
    """(columns, values): the channels of a picture (C, H, W), or a row's columns."""
    held = torch.as_tensor(sample[0] if isinstance(sample, tuple | list) else sample, dtype=torch.float64)
    return held.reshape(held.shape[0], -1) if held.dim() >= 2 else held.reshape(-1, 1)
