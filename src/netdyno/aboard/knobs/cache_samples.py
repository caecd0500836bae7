"""Read every sample of the training data once and keep it in memory, while the data set stays the object it is."""

import copy
import time
from typing import Any

from ._base import Settings, free_memory, kept_randomness
from ._samples import StandIn, cannot_stand_in, changing, cut_from_memory, same, size, spread, stream

WHEN = "toggle"
STAGE = 2
MEASURED = 4  # samples whose size and reading time stand for all
MEMORY_SHARE = 1 / 3  # of what is free; the rest belongs to the model and to whatever else runs here
MOST_FILLING_S = 120.0  # before the first step under it; longer is more than a trial of steps takes
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if not view.loaders:
        return "no DataLoader feeds the training"
    reasons = [_unfit(loader) for loader in view.loaders]
    return reasons[0] if all(reasons) else None


def _unfit(loader: Any) -> str | None:
    dataset = loader.dataset
    if stream(dataset):
        return "the data set is a stream: its samples have no numbers to find them by"
    if cut_from_memory(dataset):
        return "the script already has its samples in memory"
    if loader.num_workers:
        return "loader workers read from copies of the data set, made when they started; a cache here reaches none"
    if not len(dataset):
        return "the data set is empty"
    try:
        return cannot_stand_in(dataset) or _too_much(dataset) or changing(dataset)
    except Exception as error:
        return f"samples cannot be read: {type(error).__name__}: {error}"


def _too_much(dataset: Any) -> str | None:
    count, chosen = len(dataset), spread(len(dataset), MEASURED)
    began = time.perf_counter()
    with kept_randomness():
        held = sum(size(dataset[index]) for index in chosen)
    seconds = (time.perf_counter() - began) / len(chosen) * count
    needed, budget = held * count // len(chosen), MEMORY_SHARE * free_memory()
    if needed > budget:
        return f"all samples would take {needed / 1e6:,.1f} MB; the budget is {budget / 1e6:,.1f} MB"
    if seconds > MOST_FILLING_S:
        return f"reading all {count} samples would take {seconds:.0f} s; a trial may spend {MOST_FILLING_S:.0f} s on it"
    return None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._standing: dict[int, StandIn] | None = None

    def on(self) -> None:
        if self._standing is None:
            datasets = {id(each.dataset): each.dataset for each in self._view.loaders if _unfit(each) is None}
            # Filled before the first step: filled on the way, a trial would compare one epoch of filling with another.
            self._standing = {key: _filled(dataset) for key, dataset in datasets.items()}
        for standing in self._standing.values():
            standing.on()

    def off(self) -> None:
        for standing in (self._standing or {}).values():
            standing.off()


def _filled(dataset: Any) -> StandIn:
    kind = type(dataset)
    with kept_randomness():
        samples = [dataset[index] for index in range(len(dataset))]

    def one(self: Any, index: Any) -> Any:
        if type(index) is int and 0 <= index < len(samples):
            return _apart(samples[index])
        return kind.__getitem__(self, index)

    def several(self: Any, indices: Any) -> Any:
        return [one(self, index) for index in indices]

    methods: dict[str, Any] = {"__getitem__": one}
    if hasattr(kind, "__getitems__"):
        methods["__getitems__"] = several
    standing = StandIn(dataset, **methods)
    _must_equal(standing, dataset)
    return standing


def _must_equal(standing: StandIn, dataset: Any) -> None:
    chosen = spread(len(dataset), MEASURED)
    with kept_randomness():
        before = [dataset[index] for index in chosen]
        standing.on()
        try:
            after = [dataset[index] for index in chosen]
        finally:
            standing.off()
    if not all(same(one, other) for one, other in zip(before, after, strict=True)):
        raise ValueError("a cached sample differs from one that is read")


def _apart(sample: Any) -> Any:
    """A copy, so that nobody can spoil the cache."""
    import torch

    return torch.utils._pytree.tree_map(_copied, sample)


def _copied(leaf: Any) -> Any:
    import torch

    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    if isinstance(leaf, int | float | str | bytes | None):
        return leaf
    return leaf.copy() if hasattr(leaf, "copy") else copy.deepcopy(leaf)
