"""How a batch is made, read straight from the dataset.

Measures:         per sample, running and blocked seconds of making it, and of the declared random transform in it;
                  the same of collating a batch; whether two reads of a sample under different random state are equal to
                  the bit; whether samples fit into one tensor, and how large all of them would be; the loader's first
                  batch, its start of an epoch, and the memory that each batch leaves behind.
Costs:            its share of the budget: half for samples, half for batches of the loader as it is declared.
Leaves no trace:  random state is put back; loader workers end. What a dataset keeps for itself stays its own affair.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from netdyno.measure.baselines import data_run
from netdyno.measure.stopwatch import Clock, Stopwatch, between, thread_clock
from netdyno.probes._base import probe
from netdyno.records.evidence import LoaderProfile
from netdyno.records.measured import Split
from netdyno.targets.feed import Feed, checksum
from netdyno.targets.subject import Subject, tensors
from netdyno.targets.workload import seed_everything

SAMPLES = 512  # a per-sample time is pinned well before this many
LEAST_SAMPLES = 8
TWICE_READ = 6  # samples that are read twice: a random transform shows in the first
BATCHES = 200


@probe
def collect(subject: Subject, *, clock: Clock | None = None, budget_s: float = 2.0) -> LoaderProfile:
    clock = clock or thread_clock()
    feed = subject.feed
    made = _sampled(feed, clock, budget_s / 2)
    run = data_run(feed, clock=clock, budget_s=budget_s / 2, batches=BATCHES)
    return LoaderProfile(
        sample=made.sample,
        augment=made.augment,
        collate=made.collate,
        batch_bytes=made.batch_bytes,
        samples=-1 if feed.steps_per_epoch is None else feed.samples,
        dataset_bytes=_dataset_bytes(feed, made.plain),
        deterministic=not feed.iterable and _deterministic(feed),
        stackable=stackable(made.plain),
        workers=feed.workers,
        first_batch_s=run.first_s,
        epoch_start_s=_epoch_start(feed, clock, run.first_s),
        memory_slope_bytes=run.slope,
        iterable=feed.iterable,
        batch_size=feed.batch_size,
    )


class _Sampled:
    """Samples made one by one: seconds per sample, and a few of them as they left the dataset."""

    def __init__(self) -> None:
        self.sample = self.augment = self.collate = Split()
        self.plain: list[Any] = []
        self.batch_bytes = 0


def _sampled(feed: Feed, clock: Clock, budget_s: float) -> _Sampled:
    found = _Sampled()
    watch = Stopwatch(clock)
    finished: list[Any] = []
    began, count = clock(), 0
    watch.start("between")
    for count, sample in enumerate(_samples(feed, watch), start=1):
        if len(found.plain) < TWICE_READ:
            found.plain.append(sample)
        if feed.augment is not None:
            watch.phase("augment")
            sample = feed.augment(sample)  # noqa: PLW2901  as the loader does it
            watch.phase("between")
        if len(finished) < feed.batch_size:
            finished.append(sample)
        enough = count >= max(LEAST_SAMPLES, min(feed.batch_size, SAMPLES))
        if enough and (clock().wall - began.wall) / 1e9 >= budget_s:
            break
    phases = watch.phases()
    if not count:
        return found
    found.augment = phases.get("augment", Split()).per(count)
    found.sample = phases["sample"].per(count) + found.augment  # the record's `augment` is a part of its `sample`
    feed.collate(finished)  # the first call imports and allocates
    before = clock()
    batch = feed.collate(finished)
    # Per sample in this call, then for a whole batch.
    found.collate = between(before, clock()).per(len(finished) / feed.batch_size)
    found.batch_bytes = round(sum(item.nbytes for item in tensors(batch)) / len(finished) * feed.batch_size)
    return found


def _samples(feed: Feed, watch: Stopwatch) -> Iterator[Any]:
    """Samples of the dataset, evenly over it, without the declared transform; phase "sample" is on meanwhile."""
    if feed.iterable:
        source = iter(feed.dataset)  # type: ignore[call-overload]
        for _ in range(SAMPLES):
            watch.phase("sample")
            sample = next(source, None)
            watch.phase("between")
            if sample is None:
                return
            yield sample
        return
    for index in _spread(feed.samples, SAMPLES):
        watch.phase("sample")
        sample = feed.dataset[index]
        watch.phase("between")
        yield sample


def _spread(count: int, wanted: int) -> list[int]:
    """Indices evenly over a dataset, in an order that does not follow it: neighbours may share a file or a page."""
    step = max(1, count // wanted)
    chosen = list(range(0, count, step))[:wanted]
    random.Random(0).shuffle(chosen)
    return chosen


def _deterministic(feed: Feed) -> bool:
    """True when reading the same samples under two random states gives the same bits."""
    for index in _spread(feed.samples, TWICE_READ)[:TWICE_READ]:
        seed_everything(1)
        first = feed.dataset[index]
        seed_everything(2)
        if not same(first, feed.dataset[index]):
            return False
    return True


def same(one: Any, other: Any) -> bool:
    """True for samples that are equal to the bit, whatever they are made of."""
    return checksum([plain(one)]) == checksum([plain(other)])


def plain(sample: Any) -> Any:
    """A sample with arrays and images as tensors, so that their contents are compared and not their addresses."""
    leaves, form = torch.utils._pytree.tree_flatten(sample)
    return torch.utils._pytree.tree_unflatten([_plain(leaf) for leaf in leaves], form)


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biuf":
        return torch.from_numpy(np.array(leaf))
    if hasattr(leaf, "tobytes") and hasattr(leaf, "size") and hasattr(leaf, "mode"):  # a Pillow image
        return leaf.mode, leaf.size, leaf.tobytes()
    return leaf


def stackable(samples: list[Any]) -> bool:
    """True when samples are tensors, arrays or numbers of one shape and type each, so that all fit into a tensor."""
    forms = {_form(sample) for sample in samples}
    return len(forms) == 1 and None not in forms


def _form(sample: Any) -> tuple[object, ...] | None:
    leaves, form = torch.utils._pytree.tree_flatten(sample)
    parts: list[object] = [str(form)]
    for leaf in leaves:
        if isinstance(leaf, Tensor | np.ndarray):
            parts.append((tuple(leaf.shape), str(leaf.dtype)))
        elif isinstance(leaf, bool | int | float | np.generic):
            parts.append(type(leaf).__name__)
        else:
            return None
    return tuple(parts)


def _dataset_bytes(feed: Feed, samples: list[Any]) -> int | None:
    """Bytes of all samples held as tensors: exact for tensors in memory, else from a few; None when unknown."""
    if isinstance(feed.dataset, TensorDataset):
        return sum(item.nbytes for item in feed.dataset.tensors)
    if feed.steps_per_epoch is None or not samples:
        return None
    sizes = [_bytes(sample) for sample in samples]
    return round(sum(sizes) / len(sizes) * feed.samples)


def _bytes(sample: Any) -> int:
    leaves, _ = torch.utils._pytree.tree_flatten(sample)
    total = 0
    for leaf in leaves:
        if isinstance(leaf, Tensor | np.ndarray | np.generic):
            total += leaf.nbytes
        elif isinstance(leaf, bool | int | float):
            total += 8
        elif isinstance(leaf, str | bytes):
            total += len(leaf)
        elif hasattr(leaf, "size") and hasattr(leaf, "getbands"):  # a Pillow image
            total += leaf.size[0] * leaf.size[1] * len(leaf.getbands())
    return total


def _epoch_start(feed: Feed, clock: Clock, first_s: float) -> float:
    """Seconds from the last batch of an epoch to the first of the next, over an epoch of two batches."""
    if feed.iterable or feed.direct is not None or feed.samples < 2 * feed.batch_size or feed.extra:
        return first_s  # cannot be cut short, or has a sampler of its own
    short = replace(feed, dataset=Subset(feed.dataset, range(2 * feed.batch_size)), shuffle=False)
    batches = short.epochs()
    try:
        for _ in islice(batches, 2):
            pass
        before = clock()
        next(batches)
        return between(before, clock()).own
    finally:
        batches.close()  # type: ignore[attr-defined]
