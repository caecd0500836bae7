"""Samplers that draw classes alike, and what they change besides (ledger A-085)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from netdyno.errors import NetdynoError


class PriorShift(NamedTuple):
    """Shares of the classes in the data and in what the sampler delivers. `says` warns of what follows."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    says: str


def weighted_sampler(
    labels: Sequence[int] | Tensor, *, draws: int | None = None, generator: torch.Generator | None = None
) -> WeightedRandomSampler:
    """Draws every class that occurs equally often, with replacement; an epoch has as many draws as there are labels.

    >>> len(weighted_sampler([0, 0, 0, 1]))
    4
    """
    held = _labels(labels)
    counts = torch.bincount(held).double()
    weights = counts[held].reciprocal()
    return WeightedRandomSampler(weights.tolist(), draws or len(held), generator=generator)


def prior_shift(labels: Sequence[int] | Tensor) -> PriorShift:
    """What drawing classes alike does to what the model expects."""
    counts = torch.bincount(_labels(labels)).double()
    there = counts > 0
    before, after = counts / counts.sum(), there.double() / there.sum()
    rarest = int(torch.where(there, counts, torch.inf).argmin())
    return PriorShift(
        tuple(before.tolist()),
        tuple(after.tolist()),
        f"class {rarest} is {before[rarest]:.1%} of the data and {after[rarest]:.1%} of what is drawn: where the data's own shares are those "
        f"of use, probabilities come out too high for rare classes; multiply odds by the ratio, or move the threshold",
    )


def balanced_loader(dataset: Dataset[Any], labels: Sequence[int] | Tensor, **settings: Any) -> DataLoader[Any]:
    """A loader over the dataset whose classes come alike. `shuffle=True` beside a sampler raises ValueError, as PyTorch does."""
    if settings.get("shuffle"):
        raise ValueError("a sampler and shuffle exclude each other: the sampler draws at random already")
    return DataLoader(dataset, sampler=weighted_sampler(labels), **settings)


def _labels(labels: Sequence[int] | Tensor) -> Tensor:
    held = torch.as_tensor(labels)
    if held.dim() != 1 or held.is_floating_point() or not len(held) or int(held.min()) < 0:
        raise NetdynoError(
            "cannot draw classes alike",
            because=f"the labels are a {held.dim()}-dimensional tensor of `{held.dtype}`, and class numbers are needed",
            hint="give one whole number from 0 on for each sample",
        )
    return held.long()
