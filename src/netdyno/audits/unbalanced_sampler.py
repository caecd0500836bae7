"""A weighted sampler does not deliver what weights are for.

Looks for:  as many weights as classes instead of one per sample; weights under which rare classes become rarer; weights that differ
            within a class though they are said to balance classes.
Matters:    the sampler runs without a word and the model is trained on another mix than was meant.
Try:        `weight = 1 / counts[labels]`, one per sample: `WeightedRandomSampler(weight, len(labels))`.
Not this:   weights that go half the way to balance, or weigh samples for another reason than their class.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import TensorDataset, WeightedRandomSampler

from netdyno.audits._base import Array, Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding
from netdyno.targets.samples import spread, tensors_behind
from netdyno.targets.workload import Workload

# A class may become a third rarer by what else the weights are for.
RARER = 1.5
# Weights of each class alone: a plan to balance. Unlike that, they are about something else.
ONE_VALUE = 1e-6
MOST_LABELS = 20_000


class Delivery(NamedTuple):
    """What a weighted sampler delivers: shares of the classes in the data and in an epoch, and how far off equal shares they are."""

    counts: Array
    shares: Array
    sigmas: float  # the largest distance of a share of `draws` draws from equal shares, in standard deviations


@audit()
def unbalanced_sampler(view: View) -> Finding | None:
    sampler = view.workload.loader.get("sampler") if view.workload is not None else None
    if sampler is None or not hasattr(sampler, "weights"):
        raise Skip("no weighted sampler is declared")
    train, _ = view.workload.datasets()
    weights = np.asarray(sampler.weights, dtype=np.float64)
    if len(weights) != len(train):
        few = len(weights) < len(train)
        then = f"only the first {len(weights)} are ever drawn" if few else "it draws samples that are not there"
        return wrong(
            f"the sampler has {len(weights)} weights and training {len(train)} samples: {then}",
            fix="give one weight per sample: `weight[labels]`",
            because={"weights": float(len(weights)), "samples": float(len(train))},
            confidence=0.9,
        )
    labels = _labels(train)
    if labels is None:
        raise Skip("the labels of training are no class numbers")
    found = delivered(weights, labels)
    # The rarest class that the data have, among those that come.
    before, after = _unevenness(found.counts / found.counts.sum()), _unevenness(found.shares)
    if after < RARER * before or not _by_class(weights, labels):
        return None
    rarest = int(found.shares[found.counts > 0].argmin())
    return wrong(
        f"the sampler makes classes less even: the commonest comes {after:.1f} times as often as the rarest, and in the data "
        f"{before:.1f} times",
        fix="weigh each sample by 1 / count of its class",
        because={"before": before, "after": after, "rarest": float(rarest)},
        confidence=0.85,
    )


def delivered(weights: Array, labels: Array) -> Delivery:
    """What the weights deliver in expectation; `sigmas` of one epoch of as many draws as labels."""
    kinds, at = np.unique(labels, return_inverse=True)
    counts = np.bincount(at).astype(np.float64)
    shares = np.bincount(at, weights=weights) / weights.sum()
    equal = 1 / len(kinds)
    sigma = np.sqrt(equal * (1 - equal) / len(labels)) or 1.0
    return Delivery(counts, shares, float(np.abs(shares - equal).max() / sigma))


def _unevenness(shares: Array) -> float:
    return float(shares.max() / max(float(shares.min()), 1e-9))


def _by_class(weights: Array, labels: Array) -> bool:
    """Whether the weights are of classes: one value for each."""
    return all(np.ptp(weights[labels == kind]) <= ONE_VALUE * weights.max() for kind in np.unique(labels))


def _labels(train: Any) -> Array | None:
    if len(train) > MOST_LABELS and tensors_behind(train) is None:
        return None
    behind = tensors_behind(train)
    target: Any = behind[-1] if behind is not None else [train[index][-1] for index in spread(len(train), len(train))]
    found = np.asarray(target)
    return found if found.ndim == 1 and found.dtype.kind in "iu" else None


def _workload(weights: Sequence[float]) -> View:
    labels = torch.tensor([0] * 90 + [1] * 10)
    declared = Workload(
        model=lambda: torch.nn.Linear(3, 2),
        train=lambda: TensorDataset(torch.rand(100, 3), labels),
        val=lambda: TensorDataset(torch.rand(20, 3), labels[::5]),
        loader={"sampler": WeightedRandomSampler(weights, 100)},
    )
    return specimen("table", workload=declared)


SICK = (lambda: _workload([1 / 90, 1 / 10]), lambda: _workload([90.0] * 90 + [10.0] * 10))
WELL = (
    lambda: _workload([1 / 90] * 90 + [1 / 10] * 10),
    lambda: _workload([0.1] * 90 + [0.3] * 10),
    lambda: specimen("table"),
)
