"""Asks a data set for single samples once the script is over, and whether its workers draw alike."""

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..facts import _tensors
from ..frames import NOWHERE, Line
from ._samples_rows import LoaderBook

# Seconds that a data set may take for its samples.
PATIENCE_S = 0.6


def place(line: Line) -> dict[str, Any] | None:
    """A line as it stands in evidence."""
    return None if line is NOWHERE or not line.file else {"file": line.file, "line": line.line}


def single_samples(dataset: Any, most: int) -> Iterator[tuple[int, Any, float | None]]:
    """The first samples in the data set's own order: index, input, and the label where it is one number."""
    began = time.monotonic()
    try:
        count = min(most, len(dataset))
    except (TypeError, NotImplementedError):
        return
    for index in range(count):
        if time.monotonic() - began > PATIENCE_S:
            return
        try:
            sample = dataset[index]
        except Exception:  # the script's own code, in a state that it was not written for
            return
        x = next((t for t in _tensors(sample)), None)
        if x is None or not x.is_floating_point():
            return
        yield index, x, _label(sample)


def _label(sample: Any) -> float | None:
    if not isinstance(sample, list | tuple) or len(sample) < 2:
        return None
    label = sample[1]
    try:
        return float(label)
    except (TypeError, ValueError, RuntimeError):
        return None


def seeded_alike(book: LoaderBook) -> str:
    """What the workers of a loader draw from in the same state each time; "" where nothing was found."""
    if book.workers < 1 or book.dataset is None:
        return ""
    try:
        return _constant_seed(book) or _copied_generator(book)
    except Exception:  # the script's own code
        return ""


def _constant_seed(book: LoaderBook) -> str:
    """A worker_init_fn that brings NumPy or `random` into one state whatever the worker and its seed."""
    if book.begins is None:
        return ""
    states = [_after_init(book.begins, worker, seed) for worker, seed in ((0, 11), (1, 12), (0, 5011))]
    for name in ("numpy", "random"):
        values = [state.get(name) for state in states]
        if values[0] is not None and values.count(values[0]) == len(values) and _uses(book.dataset, name):
            return "numpy.random" if name == "numpy" else "random"
    return ""


def _after_init(begins: Any, worker: int, seed: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(seed)  # what a worker finds: everything seeded by the loader's seed and its own number
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    begins(worker)
    return _states()


def _states() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    told: dict[str, Any] = {"random": hash(random.getstate())}
    if numpy is not None:
        state = numpy.random.get_state()
        told["numpy"] = hash((state[1].tobytes(), state[2]))
    return told


def _uses(dataset: Any, name: str) -> bool:
    """Whether a sample draws from it."""
    before = _states().get(name)
    for index in range(min(4, len(dataset))):
        dataset[index]
    return bool(_states().get(name) != before)


def _copied_generator(book: LoaderBook) -> str:
    """A generator that lives in the data set: each worker starts with a copy of it, in every epoch."""
    if book.begins is not None:  # it may seed the copy
        return ""
    dataset: Any = book.dataset
    for name, generator in _generators(dataset):
        before = _state(generator)
        for index in range(min(4, len(dataset))):
            dataset[index]
        if _state(generator) != before:
            return name
    return ""


def _generators(dataset: Any, deep: int = 0) -> Iterator[tuple[str, Any]]:
    import torch

    numpy = sys.modules.get("numpy")
    kinds: tuple[Any, ...] = (random.Random, torch.Generator)
    if numpy is not None:
        kinds += (numpy.random.Generator, numpy.random.RandomState)
    for name, value in list(getattr(dataset, "__dict__", {}).items())[:40]:
        if isinstance(value, kinds):
            yield f"{type(dataset).__name__}.{name}", value
        elif deep < 3 and (name in ("dataset", "transform", "transforms", "augment") or callable(value)):
            yield from _generators(value, deep + 1)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    if hasattr(generator, "bit_generator"):
        return repr(generator.bit_generator.state)
    if hasattr(generator, "get_state"):
        state = generator.get_state()
        return repr(state.tolist()) if hasattr(state, "tolist") else repr([str(part) for part in state])
    return None
