"""An epoch is not the data set: samples are left out, or come several times.

Looks for:  map-style data of which the sampler and `drop_last` deliver less than nine tenths; streams that give each sample as often
            as there are workers, or less than their length says.
Matters:    samples that are never seen are not learned, and copies by workers make an epoch longer without anything new.
Try:        `drop_last=False` or a smaller batch, a sampler over all indices; in a stream let `get_worker_info()` share out the samples.
Not this:   samplers that draw with replacement or by weight, which leave some out by design; the few samples of the last batch.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import IterableDataset, SubsetRandomSampler, TensorDataset, get_worker_info

from netdyno.audits._base import Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding
from netdyno.targets.feed import Feed
from netdyno.targets.samples import kept_randomness
from netdyno.targets.workload import Workload

# What `drop_last` leaves out is a batch at most; a tenth of the data is worth a word.
COVERED = 0.9
# Of streams whole passes are counted, and no longer ones.
MOST_STREAM = 20_000
# Once for each of two workers is twice; shuffling buffers and rests make it no more than a tenth less or more.
TWICE, NEAR = 1.8, 0.1


@audit(dear=True)
def truncated_epoch(view: View) -> Finding | None:
    if view.workload is None:
        raise Skip("only a declared workload has a loader")
    train, _ = view.workload.datasets()
    feed = view.workload.feed(train, seed=view.seed)
    return _of_a_stream(feed) if feed.iterable else _of_a_map(feed)


def _of_a_map(feed: Feed) -> Finding | None:
    if _redraws(feed.sampler):
        raise Skip("the sampler draws with replacement, so that an epoch leaves some out by design")
    with kept_randomness():
        order = [int(index) for index in feed.order()]
    kept = order[: len(order) // feed.batch_size * feed.batch_size] if feed.drop_last else order
    covered = len(set(kept)) / feed.samples
    if covered >= COVERED:
        return None
    never = sorted(set(range(feed.samples)) - set(order))
    why = "the sampler leaves them out" if never else f"a last batch of fewer than {feed.batch_size} is dropped"
    # Whoever splits one data set by indices leaves out the others on purpose.
    meant = isinstance(feed.sampler, SubsetRandomSampler)
    return wrong(
        f"an epoch delivers {len(set(kept))} of {feed.samples} training samples: {why}",
        fix="let the sampler go over all indices" if never else "use a smaller batch, or `drop_last=False`",
        because={"covered": covered, "samples": float(feed.samples), "delivered": float(len(kept))},
        exhibits=tuple(Exhibit(split="train", index=index, says="never delivered") for index in never[:4]),
        confidence=0.6 if meant else 0.85,
    )


def _redraws(sampler: Any) -> bool:
    return bool(getattr(sampler, "replacement", False)) or hasattr(sampler, "weights")


def _of_a_stream(feed: Feed) -> Finding | None:
    with kept_randomness():
        alone = _counted(iter(feed.dataset))
    if alone is None:
        raise Skip(f"one pass over the stream is longer than {MOST_STREAM} samples")
    told = _length(feed.dataset)
    if told is not None and alone < COVERED * told:
        return wrong(
            f"the stream says that it has {told} samples, and ends after {alone}",
            fix="let the stream go to its end, or say its true length",
            because={"covered": alone / told, "samples": float(told), "delivered": float(alone)},
        )
    if feed.workers < 2 or not alone:
        return None
    times = _delivered(feed) / alone
    if times < TWICE or abs(times / feed.workers - 1) > NEAR:
        return None
    return wrong(
        f"{feed.workers} workers deliver {times * alone:.0f} samples of a stream that has {alone}: each gives all of them",
        fix="share the stream out: `info = torch.utils.data.get_worker_info()`, then every `info.num_workers`-th sample from `info.id` on",
        because={"times": times, "samples": float(alone), "workers": float(feed.workers)},
    )


def _delivered(feed: Feed) -> int:
    """Samples of one pass with the declared workers; past what all of them could give it stops."""
    whole = replace(feed, drop_last=False, augment=None, batch_size=1, collate=len, persistent_workers=False)
    with kept_randomness():
        batches = iter(whole._loader(None))
        try:
            return sum(1 for _ in batches)
        finally:
            if hasattr(batches, "_shutdown_workers"):
                batches._shutdown_workers()


def _counted(samples: Iterator[Any]) -> int | None:
    count = sum(1 for _ in itertools.islice(samples, MOST_STREAM + 1))
    return count if count <= MOST_STREAM else None


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


class _Stream(IterableDataset[Any]):
    def __init__(self, shared: bool) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        step, first = (info.num_workers, info.id) if info is not None and self.shared else (1, 0)
        return ((torch.full((3,), float(at)), at % 2) for at in range(first, 60, step))


def _workload(train: Any, batch_size: int = 4, **loader: Any) -> View:
    held = torch.rand(20, 3), torch.arange(20) % 2
    declared = Workload(
        model=lambda: torch.nn.Linear(3, 2), train=lambda: train, val=lambda: held, batch_size=batch_size, loader=loader
    )
    return specimen("table", workload=declared)


def _rows(count: int = 60) -> Any:
    return TensorDataset(torch.rand(count, 3), torch.arange(count) % 2)


SICK = (
    lambda: _workload(_rows(), sampler=range(20)),
    lambda: _workload(_rows(), batch_size=40),
    lambda: _workload(_Stream(shared=False), num_workers=2, shuffle=False),
)
WELL = (
    lambda: _workload(_rows()),
    lambda: _workload(_rows(), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 60, 60)),
    lambda: _workload(_Stream(shared=True), num_workers=2, shuffle=False),
    lambda: specimen("images"),
)
