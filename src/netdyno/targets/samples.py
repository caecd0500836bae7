"""Looks at single samples of a data path without leaving a trace: size, sameness, determinism."""

import itertools
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset

from netdyno.targets.feed import Feed

# What a Python number or short string takes in a container: the object and the slot that points to it.
SCALAR_BYTES = 40


@contextmanager
def kept_randomness() -> Iterator[None]:
    """Whatever the inside draws, `random`, NumPy and PyTorch stand afterwards where they stood."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)


def same(one: Any, other: Any) -> bool:
    """True when two samples or batches have the same structure and every leaf the same bytes."""
    leaves, form = torch.utils._pytree.tree_flatten(one)
    others, other_form = torch.utils._pytree.tree_flatten(other)
    return form == other_form and all(_print_of(a) == _print_of(b) for a, b in zip(leaves, others, strict=True))


def size(sample: Any) -> int:
    """The bytes that a sample or batch holds, counted leaf by leaf."""
    leaves, _ = torch.utils._pytree.tree_flatten(sample)
    return sum(_bytes_of(leaf) for leaf in leaves)


def spread(count: int, most: int) -> list[int]:
    """At most `most` indices out of `count`, evenly apart, first and last among them.

    >>> spread(100, 4)
    [0, 33, 66, 99]
    """
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)] if most > 1 else [0]


def deterministic(dataset: Dataset[Any], *, most: int = 8) -> bool:
    """True when samples read twice, in another order and under other random state, are equal to the bit."""
    chosen = spread(len(dataset), most)  # type: ignore[arg-type]
    with kept_randomness():
        _reseed(1)
        first = {index: dataset[index] for index in chosen}
        _reseed(2)
        return all(same(first[index], dataset[index]) for index in reversed(chosen))


def first_batch(feed: Feed) -> Any:
    """One batch in the order of the data set, random transform included, read in this process."""
    with kept_randomness():
        if feed.direct is not None:
            return feed.direct(torch.arange(_rows_of_batch(feed)))
        if feed.iterable:
            source: Any = feed.dataset
            read = list(itertools.islice(iter(source), feed.batch_size))
            return feed.collate([feed.augment(sample) for sample in read] if feed.augment else read)
        return feed.collate([feed.read(index) for index in range(_rows_of_batch(feed))])


def _rows_of_batch(feed: Feed) -> int:
    return min(feed.batch_size, len(feed.dataset))  # type: ignore[arg-type]


def batch_bytes(feed: Feed) -> int:
    """The bytes of one batch, from its first sample."""
    with kept_randomness():
        if feed.iterable:
            source: Any = feed.dataset
            return size(next(iter(source))) * feed.batch_size
        return size(feed.read(0)) * feed.batch_size


def tensors_behind(dataset: Dataset[Any]) -> tuple[Tensor, ...] | None:
    """The tensors that a data set only cuts rows from, in its own order, or None."""
    if isinstance(dataset, TensorDataset):
        return dataset.tensors
    if isinstance(dataset, Subset):
        behind = tensors_behind(dataset.dataset)
        return behind and tuple(tensor[torch.as_tensor(dataset.indices)] for tensor in behind)
    return None


def in_memory(dataset: Dataset[Any]) -> bool:
    """True when reading a sample is cutting a row from tensors that are in memory already."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return isinstance(dataset, TensorDataset)


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  user code draws from the global state
    torch.manual_seed(seed)


def _print_of(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, Tensor):
        plain = leaf.detach().cpu().contiguous().reshape(-1)
        return (tuple(leaf.shape), leaf.dtype, plain.view(torch.uint8).numpy().tobytes())
    return (type(leaf), pickle.dumps(leaf))


def _bytes_of(leaf: Any) -> int:
    if isinstance(leaf, Tensor):
        return leaf.numel() * leaf.element_size()
    if isinstance(leaf, np.ndarray):
        return leaf.nbytes
    if isinstance(leaf, bytes | str):
        return len(leaf) + SCALAR_BYTES
    if hasattr(leaf, "tobytes"):  # a Pillow image
        return len(leaf.tobytes())
    return SCALAR_BYTES
