"""How batches are made: the data path of a target, as settings that can be replaced."""

import copy
import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from multiprocessing.util import get_temp_dir
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

Nested = Callable[[str], AbstractContextManager[Any]]


class Augmented(Dataset[Any]):
    """A dataset whose samples pass through a random transform when they are read.

    Randomness depends on seed, epoch-independent draw and index only through the global generators,
    as in a user's own script, so that worker processes seed it the way PyTorch does.
    """

    def __init__(self, base: Dataset[Any], augment: Callable[[Any], Any]) -> None:
        self.base = base
        self.augment = augment

    def __len__(self) -> int:
        return len(self.base)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self.augment(self.base[index])


class AugmentedStream(IterableDataset[Any]):
    """The same for a dataset that can only be read in order. Its length is the base's, if that has one."""

    def __init__(self, base: Dataset[Any], augment: Callable[[Any], Any]) -> None:
        self.base = base
        self.augment = augment

    def __len__(self) -> int:
        return len(self.base)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return map(self.augment, iter(self.base))  # type: ignore[call-overload]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The data path. `dataset` is read per sample; `augment` is its declared random transform.

    `direct` set means no DataLoader at all: a function from (indices) to a batch, for data that
    fit in memory. The order of samples depends on `seed` alone, so two feeds with one seed
    give the same samples in the same batches, whatever their workers. A declared `sampler` is
    copied for each pass over the data, and given a generator under `seed` where it takes one.
    """

    dataset: Dataset[Any]
    batch_size: int
    shuffle: bool = True
    drop_last: bool = True
    augment: Callable[[Any], Any] | None = None
    batch_augment: Callable[[Any], Any] | None = None
    collate: Callable[[list[Any]], Any] = default_collate
    workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    start_method: str | None = None
    worker_init: Callable[[int], None] | None = None
    direct: Callable[[torch.Tensor], Any] | None = None
    sampler: Any = None
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def iterable(self) -> bool:
        """True for a dataset that can only be read in order."""
        return isinstance(self.dataset, IterableDataset)

    @property
    def samples(self) -> int:
        """Samples in the dataset; raises TypeError for an iterable dataset without a length."""
        return len(self.dataset)  # type: ignore[arg-type]

    @property
    def steps_per_epoch(self) -> int | None:
        """Batches per epoch, or None when the dataset does not know its length."""
        try:
            count = self.samples if self.sampler is None else len(self.sampler)
        except TypeError:
            return None
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def read(self, index: int) -> Any:
        """One sample as the model's loader would get it, random transform included."""
        sample = self.dataset[index]
        return self.augment(sample) if self.augment is not None else sample

    def epochs(self, nested: Nested | None = None) -> Iterator[Any]:
        """Batches without end, epoch after epoch. `nested("collate")` times collating in this process."""
        loader = _Direct(self) if self.direct is not None else self._loader(nested)
        iterator: Any = None
        try:
            for _ in itertools.count():
                empty = True
                iterator = iter(loader)
                for batch in iterator:
                    empty = False
                    yield batch
                if empty:
                    return
        finally:
            # Persistent or not: whoever closes the epochs early must find no worker left behind.
            if hasattr(iterator, "_shutdown_workers"):
                iterator._shutdown_workers()

    def _loader(self, nested: Nested | None) -> DataLoader[Any]:
        collate = self.collate
        if nested is not None and self.workers == 0:
            collate = _timed(collate, nested)
        dataset = self.dataset
        if self.augment is not None:
            dataset = (AugmentedStream if self.iterable else Augmented)(dataset, self.augment)
        # The sampler owns its generator: the loader's own draws (one base seed per epoch) must not
        # shift the order of samples when workers are switched on or made persistent.
        order: dict[str, Any] = {} if self.iterable else {"sampler": self.order()}
        busy: dict[str, Any] = {}
        if self.workers:
            # Workers keep their sockets in this process' folder. One that has to make a folder of its own removes it
            # when it ends, perhaps while a thread of it still adds to it, and leaves it behind when it is killed.
            get_temp_dir()
            busy = {
                "persistent_workers": self.persistent_workers,
                "prefetch_factor": self.prefetch_factor,
                "multiprocessing_context": self.start_method,
            }
        return _Loader(
            dataset,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            collate_fn=collate,
            num_workers=self.workers,
            pin_memory=self.pin_memory,
            worker_init_fn=_seeded(self.worker_init) if self.workers else None,
            generator=torch.Generator().manual_seed(self.seed + 1),
            **order,
            **busy,
            **self.extra,
        )

    def order(self) -> Iterable[int]:
        """The order of samples, made anew: each loop over it is one epoch, and the first is always the same."""
        generator = torch.Generator().manual_seed(self.seed)
        if self.sampler is not None:
            sampler = copy.copy(self.sampler)
            if hasattr(sampler, "generator"):
                sampler.generator = generator
            return sampler
        positions: Any = range(len(self.dataset))  # type: ignore[arg-type]
        return RandomSampler(positions, generator=generator) if self.shuffle else SequentialSampler(positions)

    def evaluation(self) -> "Feed":
        """The same path for validation data: in order, nothing dropped, no random transform."""
        return replace(
            self, shuffle=False, drop_last=False, augment=None, batch_augment=None, direct=None, sampler=None
        )


class _Loader(DataLoader[Any]):
    """PyTorch's loader, but for its warning about more workers than cores, at the start and at every epoch.

    Whether they pay is what a trial is there to find out.
    """

    def check_worker_number_rationality(self) -> None:
        pass


class _Direct:
    """Batches cut straight from tensors in memory, in the order that the loader's own sampler gives."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.order = feed.order()

    def __iter__(self) -> Iterator[Any]:
        feed = self.feed
        assert feed.direct is not None
        for chosen in torch.tensor(list(self.order), dtype=torch.int64).split(feed.batch_size):
            if len(chosen) == feed.batch_size or not feed.drop_last:
                yield feed.direct(chosen)


def _timed(collate: Callable[[list[Any]], Any], nested: Nested) -> Callable[[list[Any]], Any]:
    def timed(samples: list[Any]) -> Any:
        with nested("collate"):
            return collate(samples)

    return timed


class _seeded:  # noqa: N801  a function that must survive pickling
    """Seeds NumPy and `random` in each worker from PyTorch's own worker seed."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        seed = torch.initial_seed() % 2**32
        np.random.seed(seed)  # noqa: NPY002  the user's transforms draw from the global state
        random.seed(seed)
        if self.then is not None:
            self.then(worker)


def checksum(batches: list[Any]) -> str:
    """A short hash of the bytes of some batches: proves that two sides were fed the same data.

    What is neither tensor, array nor plain data counts by its type only: its text may hold an address.
    """
    digest = hashlib.blake2b(digest_size=8)
    leaves, _ = torch.utils._pytree.tree_flatten(batches)
    for leaf in leaves:
        digest.update(_content(leaf))
    return digest.hexdigest()


def _content(leaf: Any) -> bytes:
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
        leaf = torch.from_numpy(np.ascontiguousarray(leaf))
    if isinstance(leaf, torch.Tensor):
        flat = leaf.detach().cpu().contiguous().reshape(-1)
        return str((tuple(leaf.shape), leaf.dtype)).encode() + flat.view(torch.uint8).numpy().tobytes()
    if isinstance(leaf, str | bytes | int | float | complex | bool | None):
        return repr(leaf).encode()
    return type(leaf).__qualname__.encode()
