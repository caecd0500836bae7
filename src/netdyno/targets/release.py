"""What a user declares to ship a trained module: the module, a sample of its inputs, and data to calibrate and to judge on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from netdyno.errors import TargetError
from netdyno.targets.workload import _built, _module, seed_everything

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Release:
    """A trained module and what it takes to ship it. Only `model` and `example` are needed.

    model:          () -> Module, trained: its weights are loaded.
    example:        () -> a tensor, or a tuple of tensors, of inputs: at least two rows, the first dimension counts rows.
    calibration:    () -> Dataset or tuple of tensors (inputs…, target) that quantisers may look at. Never the validation data.
    validation:     () -> the same, for the accuracy guard.
    quality:        (output, target) -> Tensor with one number per row, higher is better: 1 and 0 for right and wrong. Default: whether
                    the largest output is the target, for whole-number targets; minus the squared error for floating-point ones.
    production:     () -> tensor or tuple of tensors of inputs as they come in production, without targets, to look whether `calibration` covers them.
    raw:            () -> a list of raw records; `prepare` is what the service does to one, `prepare_in_training` what training did to the
                    same one: record -> inputs of one row, without the first dimension. The gate compares the two.
    groups:         () -> one label per calibration row, when strata are not the targets.
    classes:        names of the classes, for the package.
    names:          of the inputs, as clients send them. Default: input, or input0, input1, …
    dynamic:        whether calls may have different numbers of rows.
    sizes:          sides in pixels that square images may be made smaller to, when accuracy allows it (ledger A-112). Clients go on sending them as
                    in `example`; what is shipped resizes them itself.
    resize:         (images, side) -> images of side x side. Default: bilinear.
    train:          (model) -> None, quantisation-aware fine-tuning: trains the prepared module in place (ledger A-273).
    score:          mean quality on the validation data as training reported it: the gate says when the module given does not reach it.
    allow:          items of the gate that fail on purpose, such as `repeat-determinism` for Monte-Carlo dropout: they become warnings.
    """

    model: Callable[[], nn.Module]
    example: Callable[[], Any]
    calibration: Callable[[], Any] | None = None
    validation: Callable[[], Any] | None = None
    quality: Callable[[Any, Any], Tensor] | None = None
    production: Callable[[], Any] | None = None
    raw: Callable[[], Sequence[Any]] | None = None
    prepare: Callable[[Any], Any] | None = None
    prepare_in_training: Callable[[Any], Any] | None = None
    groups: Callable[[], Sequence[Any]] | None = None
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    dynamic: bool = True
    resize: Callable[[Tensor, int], Tensor] | None = None
    sizes: tuple[int, ...] = ()
    train: Callable[[nn.Module], None] | None = None
    score: float | None = None
    allow: tuple[str, ...] = ()
    licences: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def at(self, side: int) -> "Release":
        """The same release, its first input resized to `side` pixels before the module sees it. Raises TargetError for what is no square image."""
        images = self.sample()[0]
        if images.dim() != 4 or images.shape[-1] != images.shape[-2] or not images.is_floating_point():
            raise TargetError(
                f"`{self.name}` cannot be tried at other resolutions",
                because=f"its first input has rows of shape {tuple(images.shape[1:])}, not channels x side x side of floating-point numbers",
                hint="leave `sizes` out, or give images as (rows, channels, side, side)",
            )
        return replace(self, model=lambda: Resized(self.module(), side, self.resize or bilinear), sizes=())

    def module(self) -> nn.Module:
        """The trained module as the user gives it: on the CPU, in whatever mode it is in. Raises TargetError."""
        seed_everything(0)
        model = _built("model", self.model)
        if not isinstance(model, nn.Module):
            raise TargetError(
                f"`model` of `{self.name}` does not give a module",
                because=f"it returned a `{type(model).__name__}`",
                hint="return an instance of torch.nn.Module with its trained weights loaded",
            )
        return model.cpu()

    def sample(self) -> Inputs:
        """The example inputs, two rows or more. Raises TargetError for another form."""
        given = _built("example", self.example)
        inputs = (given,) if isinstance(given, Tensor) else tuple(given) if isinstance(given, tuple | list) else ()
        if not inputs or not all(isinstance(one, Tensor) and one.dim() for one in inputs):
            raise TargetError(
                f"`example` of `{self.name}` does not give inputs",
                because=f"it returned a `{type(given).__name__}`",
                hint="return a tensor of two rows or more, or a tuple of such tensors",
            )
        if len({len(one) for one in inputs}) != 1 or len(inputs[0]) < 2:
            raise TargetError(
                f"`example` of `{self.name}` has {sorted({len(one) for one in inputs})} rows",
                because="what depends on the number of rows shows from two on, and all inputs need the same number",
                hint="stack two samples or more: `torch.stack([a, b])`",
            )
        return tuple(one.detach().cpu() for one in inputs)

    def calibration_data(self) -> Dataset[Any] | None:
        """What quantisers may look at, or None where nothing is declared."""
        return _data("calibration", self.calibration)

    def validation_data(self) -> Dataset[Any] | None:
        """What accuracy is judged on, or None where nothing is declared."""
        return _data("validation", self.validation)

    def rows_right(self, output: Any, target: Any) -> Tensor:
        """One number per row, higher is better. Raises TargetError where no default fits."""
        if self.quality is not None:
            return torch.as_tensor(self.quality(output, target)).detach().double().reshape(-1)
        first = output[0] if isinstance(output, tuple | list) else output
        if not isinstance(first, Tensor) or not isinstance(target, Tensor):
            raise TargetError(
                f"there is no quality that fits the answers of `{self.name}`",
                because=f"the model gives a `{type(first).__name__}`, and the target is a `{type(target).__name__}`",
                hint="declare `quality=lambda output, target: …`, one number per row",
            )
        if target.is_floating_point():
            error = (first.double().reshape(len(target), -1) - target.double().reshape(len(target), -1)).square()
            return -error.mean(1)
        if first.dim() == target.dim() + 1:
            right = (first.argmax(1) == target).double()
            return right.reshape(len(target), -1).mean(1)
        return (first.double().reshape(-1) > 0).eq(target.reshape(-1).bool()).double()


class Resized(nn.Module):
    """A module that makes its first input smaller before it looks: (N, C, H, W) as (N, C, side, side)."""

    def __init__(self, inside: nn.Module, side: int, resize: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.inside, self.side, self.resize = inside, side, resize

    def forward(self, images: Tensor, *rest: Tensor) -> Any:
        return self.inside(self.resize(images, self.side), *rest)

    def extra_repr(self) -> str:
        code = getattr(self.resize, "__code__", None)
        told = f"-{crc32(code.co_code):08x}" if code is not None else ""
        return f"side={self.side}, resize={getattr(self.resize, '__qualname__', repr(self.resize))}{told}"


def bilinear(images: Tensor, side: int) -> Tensor:
    """(N, C, H, W) as (N, C, side, side), each pixel from its four nearest."""
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False)


def batches(data: Dataset[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """The whole data set in order, in tuples (inputs…, target) of at most `size` rows."""
    for batch in DataLoader(data, batch_size=size):
        yield tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def stratified(release: Release, data: Dataset[Any], rows: int) -> list[int]:
    """Indices of `rows` samples in which every class (or declared group) has its share, the rarest at least a few (ledger A-274).

    Classes take turns, so a class of which there are less than its turn is there whole. Without labels: evenly spaced.
    """
    count = len(data)  # type: ignore[arg-type]
    if count <= rows:
        return list(range(count))
    labels = _labels(release, data, count)
    if labels is None:
        return [round(at * (count - 1) / (rows - 1)) for at in range(rows)]
    queues: dict[Any, list[int]] = {}
    for at, label in enumerate(labels):
        queues.setdefault(label, []).append(at)
    order = [queue for _, queue in sorted(queues.items(), key=lambda item: str(item[0]))]
    taken: list[int] = []
    turn = 0
    while len(taken) < rows:
        for queue in order:
            # Evenly spaced within a class, so that data sorted by anything else is still covered.
            if turn < len(queue) and len(taken) < rows:
                taken.append(queue[_spread(turn, len(queue), -(-rows // len(order)))])
        turn += 1
    return sorted(set(taken))


def _spread(turn: int, count: int, turns: int) -> int:
    return turn if count <= turns else min(count - 1, turn * count // turns)


def _labels(release: Release, data: Dataset[Any], count: int) -> list[Any] | None:
    if release.groups is not None:
        return list(release.groups())
    if isinstance(data, TensorDataset) and len(data.tensors) > 1:
        target = data.tensors[-1]
    else:
        rows = [data[at] for at in range(count)]
        if not all(isinstance(row, tuple | list) and len(row) > 1 for row in rows):
            return None
        target = torch.as_tensor([_scalar(row[-1]) for row in rows])
    if target.is_floating_point() or target.dim() != 1:
        return None
    return list(target.tolist())


def _scalar(value: Any) -> float:
    return float(value) if not isinstance(value, Tensor) or value.numel() == 1 else float("nan")


def _data(part: str, make: Callable[[], Any] | None) -> Dataset[Any] | None:
    if make is None:
        return None
    data = _built(part, make)
    if isinstance(data, Tensor):
        data = (data,)
    if isinstance(data, tuple | list) and data and all(isinstance(one, Tensor) for one in data):
        return TensorDataset(*data)
    if not hasattr(data, "__getitem__"):
        raise TargetError(
            f"`{part}` does not give a dataset",
            because=f"it returned a `{type(data).__name__}`",
            hint="return a torch Dataset, or a tuple of tensors (inputs…, target)",
        )
    found: Dataset[Any] = data
    return found


def load(reference: str) -> Release:
    """The Release that `ship.py:Digits` or `package.module:Digits` stands for; `ship.py:Digits@160` is the same at 160 pixels.

    Raises TargetError when there is no such file, name or release.
    """
    whole, _, side = reference.rpartition("@")
    if whole and side.isdigit():
        return load(whole).at(int(side))
    where, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    module = _module(where, reference)
    there = [key for key, value in vars(module).items() if isinstance(value, Release)]
    if not name and len(there) == 1:
        name = there[0]
    value = getattr(module, name, None) if name else None
    if callable(value) and not isinstance(value, Release):
        value = _built(reference, value)
    if not isinstance(value, Release):
        raise TargetError(
            f"`{reference}` is not a release",
            because=f"it is a `{type(value).__name__}`"
            if value is not None
            else f"the file declares {', '.join(there) or 'none'}",
            hint="declare `Digits = netdyno.Release(model=…, example=…)`; docs/how-to/ship-a-model.md has one",
        )
    if not value.name:
        object.__setattr__(value, "name", name.lower() or Path(where).stem)
    return value
