"""Workers draw the same random numbers, or every epoch has the same order.

Looks for:  the random transform of one sample in two workers of the workload's own loader: equal in both though it is not always
            equal; the same in the next epoch; an order of samples that does not change from epoch to epoch.
Matters:    the samples are fewer than they seem: every transform comes several times, and the same batches in each epoch.
Try:        draw from `random`, `torch` or NumPy's global generator, which the loader seeds in each worker; in `worker_init_fn` seed
            others from `torch.initial_seed()`, not from a constant.
Not this:   transforms that are not random; an order that is declared to be that of the data set.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

from netdyno.audits._base import Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding
from netdyno.targets.feed import Feed, checksum
from netdyno.targets.samples import kept_randomness
from netdyno.targets.workload import Workload

# One sample, read so often by each of two workers: two draws of a coin agree once in 2**8.
READINGS, WORKERS = 8, 2
EPOCHS = 3
MOST_ORDER = 20_000
ENOUGH = 20


@audit(dear=True)
def worker_seeds(view: View) -> Finding | None:
    if view.workload is None:
        raise Skip("only a declared workload has a loader")
    train, _ = view.workload.datasets()
    if isinstance(train, IterableDataset):
        raise Skip("data that can only be read in order have no order to shuffle")
    feed = view.workload.feed(train, seed=view.seed)
    found = _frozen_order(feed)
    if found is None and feed.workers > 0:
        found = _shared_draws(feed)
    return found


def fingerprints(feed: Feed, epochs: int = EPOCHS) -> tuple[str, ...]:
    """A short hash of the order of samples in each epoch (ledger A-089)."""
    with kept_randomness():
        torch.manual_seed(feed.seed)
        order = feed.order()
        return tuple(checksum([torch.tensor(list(order)[:MOST_ORDER])]) for _ in range(epochs))


def _frozen_order(feed: Feed) -> Finding | None:
    if not feed.shuffle and feed.sampler is None:
        return None
    count = len(feed.sampler) if feed.sampler is not None else feed.samples
    # One sample after the other, as they are, is what a sampler in order was declared for.
    if count < ENOUGH or _in_order(feed):
        return None
    seen = fingerprints(feed)
    if fingerprints(feed) != seen:
        return wrong(
            f"the order of {count} samples is another one each time, under 1 seed: the sampler draws from a generator that nobody seeds",
            fix="let the sampler draw from a `generator`, or from torch's global one",
            because={"samples": float(count), "orders": float(len(set(seen)))},
            confidence=0.8,
        )
    if len(set(seen)) > 1:
        return None
    return wrong(
        f"{EPOCHS} epochs have the same order of samples, though they are shuffled",
        fix="let the sampler draw a new order whenever it is iterated, and not once when it is made",
        because={"epochs": float(EPOCHS), "orders": 1.0},
        confidence=0.8,
    )


def _in_order(feed: Feed) -> bool:
    with kept_randomness():
        order = list(feed.order())[:MOST_ORDER]
    return all(one < other for one, other in itertools.pairwise(order))


def _shared_draws(feed: Feed) -> Finding | None:
    first = _readings(feed)
    if len({draw for worker in first for draw in worker}) == 1:
        return None  # the transform is not random
    if first[0] == first[1]:
        return wrong(
            f"{WORKERS} workers draw the same random numbers: {READINGS} transforms of one sample are equal in both",
            fix="draw from generators that the loader seeds in each worker, or seed yours from `torch.initial_seed()` in `worker_init_fn`",
            because={"workers": float(WORKERS), "equal_readings": float(READINGS)},
        )
    if _readings(feed, epoch=1) != first:
        return None
    return wrong(
        f"each epoch draws the random numbers of the one before: {READINGS * WORKERS} transforms of one sample came again in epoch 2",
        fix="seed workers from `torch.initial_seed()`, which is another number in each epoch, and not from a constant",
        because={"workers": float(WORKERS), "equal_readings": float(READINGS * WORKERS)},
    )


def _readings(feed: Feed, epoch: int = 0) -> list[list[str]]:
    """What each worker makes of sample 0, reading by reading, in one epoch of the workload's own loader."""
    alone = replace(
        feed, sampler=_Again(READINGS * WORKERS), batch_size=1, drop_last=False, workers=WORKERS, persistent_workers=False,
        batch_augment=None, direct=None, collate=_as_it_is,
    )  # fmt: skip
    with kept_randomness():
        batches = alone.epochs()
        try:
            found = [checksum(next(batches)) for _ in range((epoch + 1) * READINGS * WORKERS)]
        finally:
            batches.close()  # type: ignore[attr-defined]
    last = found[epoch * READINGS * WORKERS :]
    return [last[worker::WORKERS] for worker in range(WORKERS)]


def _as_it_is(samples: list[Any]) -> Any:
    return samples


class _Again(Sampler[int]):
    """Sample 0 again and again: batches go to the workers in turn."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __len__(self) -> int:
        return self.times

    def __iter__(self) -> Iterator[int]:
        return iter([0] * self.times)


class _Drawn(Dataset[Any]):
    """Samples whose transform draws from a generator of its own, copied into each worker, or from NumPy's global one."""

    def __init__(self, own: bool) -> None:
        self.chance: Any = np.random.default_rng(0) if own else np.random

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), index + float(self.chance.normal())), index % 2


def _constant(_: int) -> None:
    np.random.seed(7)  # noqa: NPY002  the sickness itself


class _Once(Sampler[int]):
    """Shuffled when it was made, and never again."""

    def __init__(self) -> None:
        self.order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).tolist()

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


def _workload(own: bool = False, **loader: Any) -> View:
    return specimen(
        "table",
        workload=Workload(model=lambda: torch.nn.Linear(3, 2), train=lambda: _Drawn(own), batch_size=4, loader=loader),
    )


SICK = (
    lambda: _workload(num_workers=2, worker_init_fn=_constant),
    lambda: _workload(own=True, num_workers=2),
    lambda: _workload(sampler=_Once()),
)
WELL = (lambda: _workload(num_workers=2), _workload, lambda: _workload(shuffle=False), lambda: specimen("images"))
