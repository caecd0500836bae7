"""A declared workload as a View: its data sets as they are before any random transform, and what it says about them."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from netdyno.audits import _arrays as arrays
from netdyno.audits._base import Array, Part, View
from netdyno.errors import TargetError
from netdyno.records.audit import Modality
from netdyno.targets.place import place_of
from netdyno.targets.samples import kept_randomness, tensors_behind
from netdyno.targets.workload import Workload, load, seed_everything

# A row of fewer whole numbers may be a few codes in a table; of more, where the model looks them up, it is a text.
LEAST_TOKENS = 8


class Rows(NamedTuple):
    """What was read of a data set: inputs, targets or None, and which samples they are of how many."""

    inputs: Any
    targets: Array | None
    indices: Array
    total: int


def opened(reference: str, *, sample: int, seed: int) -> View:
    """The training and validation data of a declared workload. Raises TargetError."""
    workload = load(reference)
    return view(workload, reference, sample=sample, seed=seed)


def view(workload: Workload, reference: str, *, sample: int = 4000, seed: int = 0) -> View:
    """The data of a live workload, read through its data sets. The global generators stay where they are."""
    train, val = workload.datasets()
    chance = np.random.default_rng(seed)
    # A data set may draw when it is read: the same seed gives the same look.
    with kept_randomness():
        seed_everything(seed)
        read = {name: _read(name, data, sample, chance) for name, data in (("train", train), ("val", val))}
    used = _used(workload)
    hint = _modality(read["train"].inputs, used)
    notes: dict[str, Any] = {"source": "workload", "layers": used}
    if hint == "text" and not isinstance(read["train"].inputs, list):
        notes["tokens"] = {name: rows.inputs for name, rows in read.items()}
    parts = {name: _part(name, rows, hint) for name, rows in read.items()}
    return arrays.view_of(
        reference,
        parts,
        seed=seed,
        hint=hint,
        augment=workload.augment,
        batch_augment=workload.batch_augment,
        workload=workload,
        notes=notes,
    )


def _part(name: str, rows: Rows, modality: Modality) -> Part:
    inputs = rows.inputs
    if modality == "text" and not isinstance(inputs, list):
        inputs = [" ".join(map(str, row)) for row in np.asarray(inputs).reshape(len(rows.indices), -1).tolist()]
    return Part(name=name, x=inputs, y=rows.targets, indices=rows.indices, total=rows.total)


def _read(name: str, data: Dataset[Any], sample: int, chance: np.random.Generator) -> Rows:
    try:
        if isinstance(data, IterableDataset):
            return _first(data, sample)
        total = len(data)  # type: ignore[arg-type]
        behind = tensors_behind(data)
        if behind is not None:
            rows = arrays.chosen(total, sample, chance, each=sum(_bytes(tensor[:1]) for tensor in behind))
            held = [tensor[torch.from_numpy(rows)] for tensor in behind]
            return Rows(*_split([_array(each) for each in held]), rows, total)
        rows = arrays.chosen(total, sample, chance, each=_size(data[0]))
        return Rows(*_stacked([_leaves(data[int(row)]) for row in rows]), rows, total)
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(
            f"cannot read `{name}`",
            because=f"it raised {type(error).__name__}: {error}{place_of(error)}",
            hint=f"read it alone in a Python session: `{name}()[0]` gives one sample, its target last",
        ) from error


def _first(data: IterableDataset[Any], sample: int) -> Rows:
    """The first samples of data that can only be read in order: there is no other choice of them."""
    read = [_leaves(one) for one in itertools.islice(iter(data), sample)]
    return Rows(*_stacked(read), np.arange(len(read)), len(read))


def _leaves(sample: Any) -> list[Any]:
    """The inputs of a sample and its target, last; a mapping gives its values."""
    if isinstance(sample, Mapping):
        sample = tuple(sample.values())
    return list(sample) if isinstance(sample, tuple | list) else [sample]


def _stacked(samples: list[list[Any]]) -> tuple[Any, Array | None]:
    if not samples:
        raise TargetError("cannot look at the data", because="a split is empty", hint="check the path and the filter")
    return _split([_column([sample[at] for sample in samples]) for at in range(len(samples[0]))])


def _column(values: list[Any]) -> Any:
    """One place of all samples, as an array; texts stay a list, and pictures or rows of different sizes are made alike."""
    if isinstance(values[0], str):
        return values
    held = [_array(value) for value in values]
    shapes = {each.shape for each in held}
    if len(shapes) == 1:
        return np.stack(held)
    if held[0].ndim == 1 and held[0].dtype.kind in "iu":
        return [" ".join(map(str, each.tolist())) for each in held]
    if held[0].ndim == 3:
        from netdyno.audits._features import grey_small

        return np.stack([grey_small(arrays.first_channels(each[None]), 32) for each in held])
    raise TargetError(
        "cannot look at the data side by side",
        because=f"their inputs have {len(shapes)} shapes, such as {' and '.join(map(str, sorted(shapes)[:2]))}",
        hint="give samples of one shape from the data set, and pad or crop in it",
    )


def _split(columns: list[Any]) -> tuple[Any, Array | None]:
    """Inputs and targets. Several numeric inputs become one row."""
    *inputs, target = columns if len(columns) > 1 else (columns[0], None)
    if len(inputs) == 1:
        return inputs[0], None if target is None else np.asarray(target)
    texts = [each for each in inputs if isinstance(each, list)]
    if texts:
        return [" ".join(words) for words in zip(*texts, strict=True)], np.asarray(target)
    flat = [np.asarray(each, dtype=np.float64).reshape(len(each), -1) for each in inputs]
    return np.hstack(flat), np.asarray(target)


def _modality(inputs: Any, layers: frozenset[str]) -> Modality:
    """By type and shape, and where that leaves it open, by what the model does with it."""
    if isinstance(inputs, list):
        return "text"
    x = np.asarray(inputs)
    if x.dtype.kind in "iu" and x.ndim == 2 and x.shape[1] >= LEAST_TOKENS and "Embedding" in layers:
        return "text"
    found = arrays.modality_of(x)
    moves = layers & {"Conv1d", "LSTM", "GRU", "RNN"}
    if found == "table" and moves and not layers & {"Conv2d"} and x.ndim == 2 and x.shape[1] > 1:
        return "series"
    if found == "images" and x.ndim == 3 and "Conv2d" not in layers and moves:
        return "series"
    return found


def _used(workload: Workload) -> frozenset[str]:
    """The kinds of layers of the model; nothing where it cannot be built, which is not our question here."""
    try:
        with kept_randomness():
            model: nn.Module = workload.model()
    except Exception:
        return frozenset()
    names = {type(module).__name__ for module in model.modules()}
    return frozenset(names | ({"Embedding"} if "EmbeddingBag" in names else set()))


def _array(value: Any) -> Array:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    return np.asarray(value)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _size(sample: Any) -> int:
    return sum(0 if isinstance(leaf, str) else _array(leaf).nbytes for leaf in _leaves(sample))
