"""Looks at data sets without leaving a trace, and lets one object answer in another way while it stays itself."""

import gc
import pickle
import random
import sys
from typing import Any

from ._base import kept_randomness, randomness

# What a Python number or short string takes in a container: the object and the slot that points to it.
SCALAR_BYTES = 40


def stream(dataset: Any) -> bool:
    """True when samples have no numbers to find them by."""
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))


def tensors_behind(dataset: Any) -> tuple[Any, ...] | None:
    """The tensors that a data set only cuts rows from, in its own order, or None."""
    import torch
    from torch.utils.data import Subset, TensorDataset

    # Exactly these: a subclass may do more than cut.
    if type(dataset) is TensorDataset:
        return tuple(dataset.tensors)
    if type(dataset) is Subset:
        behind = tensors_behind(dataset.dataset)
        return behind and tuple(tensor[torch.as_tensor(dataset.indices)] for tensor in behind)
    return None


def cut_from_memory(dataset: Any) -> bool:
    """True when reading a sample is cutting a row from tensors that are in memory already."""
    from torch.utils.data import Subset, TensorDataset

    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset


def spread(count: int, most: int) -> list[int]:
    """At most `most` indices out of `count`, evenly apart, first and last among them."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def changing(dataset: Any, *, most: int = 8) -> str | None:
    """Why a sample cannot be kept for a second reading, or None: read twice under other random state, in another
    order, samples must be equal to the bit, and no reading may draw from a random stream."""
    chosen = spread(len(dataset), most)
    with kept_randomness():
        _reseed(1)
        before = _prints(randomness())
        first = {index: dataset[index] for index in chosen}
        drew = _prints(randomness()) != before
        _reseed(2)
        equal = all(same(first[index], dataset[index]) for index in reversed(chosen))
    if drew:
        return "reading a sample draws random numbers, as a random transform does"
    return None if equal else "a sample read twice is not the same"


def _prints(state: tuple[Any, ...]) -> bytes:
    python, numpy, cpu, devices = state
    parts = [python, numpy and [str(numpy[0]), numpy[1].tobytes(), *numpy[2:]]]
    return pickle.dumps([parts, [bytes(each.tolist()) for each in (cpu, *devices)]])


def _reseed(seed: int) -> None:
    import torch

    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    torch.manual_seed(seed)


def same(one: Any, other: Any) -> bool:
    """True when two samples or batches have the same structure and every leaf the same bits in the same order."""
    import torch

    leaves, form = torch.utils._pytree.tree_flatten(one)
    others, other_form = torch.utils._pytree.tree_flatten(other)
    return form == other_form and all(_equal(a, b) for a, b in zip(leaves, others, strict=True))


def _equal(one: Any, other: Any) -> bool:
    import torch

    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype or one.stride() != other.stride():
            return False
        plain, others = (each.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
        return bool(torch.equal(plain, others))
    return pickle.dumps(one) == pickle.dumps(other)


def size(sample: Any) -> int:
    """The bytes that a sample holds, counted leaf by leaf."""
    import torch

    return sum(_bytes_of(leaf) for leaf in torch.utils._pytree.tree_leaves(sample))


def _bytes_of(leaf: Any) -> int:
    import torch

    if isinstance(leaf, torch.Tensor):
        return leaf.numel() * leaf.element_size()
    if isinstance(leaf, bytes | str):
        return len(leaf) + SCALAR_BYTES
    if hasattr(leaf, "nbytes"):
        return int(leaf.nbytes)
    if hasattr(leaf, "tobytes"):  # a Pillow image
        return len(leaf.tobytes())
    return SCALAR_BYTES


def other_loaders(loader: Any) -> list[Any]:
    """The loaders that read the same data set as this one."""
    from torch.utils.data import DataLoader

    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), DataLoader)
        and each is not loader
        and getattr(each, "dataset", None) is loader.dataset
    ]


class StandIn:
    """A data set that answers some calls in another way. It stays the same object: iterators that run, `isinstance`
    and the script's own attributes all go on, because only its class changes, to a subclass of its own."""

    def __init__(self, dataset: Any, **methods: Any) -> None:
        self._dataset = dataset
        self._kind = type(dataset)
        same_name = {"__module__": self._kind.__module__, "__qualname__": self._kind.__qualname__}
        made_by: Any = type(self._kind)  # a metaclass of the user's has its say, and may refuse
        self._other = made_by(self._kind.__name__, (self._kind,), {**methods, **same_name})

    def on(self) -> None:
        self._dataset.__class__ = self._other

    def off(self) -> None:
        self._dataset.__class__ = self._kind


def cannot_stand_in(dataset: Any) -> str | None:
    """Why the class of a data set cannot be changed, or None; tried and taken back."""
    try:
        trial = StandIn(dataset)
        trial.on()
        trial.off()
    except Exception:
        return f"a data set of type `{type(dataset).__name__}` cannot be made to answer in another way from outside"
    return None
