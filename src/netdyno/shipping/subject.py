"""What is shipped, looked at before anything is exported: its inputs and outputs, its layers, and a hash that names it."""

import hashlib
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from netdyno.errors import TargetError
from netdyno.measure import host
from netdyno.records.deployment import Port, Signature
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._base import Arrays, Traits
from netdyno.targets import release as releases
from netdyno.targets.release import Release, batches

# Rows that are answered at once when a whole data set is.
AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A release with its live module, in eval mode on the CPU. `rows` are real inputs: of the validation or calibration data."""

    release: Release
    reference: str
    model: nn.Module
    example: tuple[Tensor, ...]
    signature: Signature
    hash: str
    dynamic: bool

    def answers(self, arrays: Arrays) -> Arrays:
        """What the module itself answers, in float32."""
        with torch.inference_mode():
            return flat(self.model(*(torch.from_numpy(array) for array in arrays)))

    def traits(self, sizes: tuple[int, ...]) -> Traits:
        """What runtimes are told before anything is exported."""
        return Traits(
            layers=dict(Counter(type(module).__name__ for module in self.model.modules())),
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            dynamic=self.dynamic,
            flags=runtimes.processor_flags(),
            cores=host.cores(),
            calibration=self.release.calibration is not None,
            batches=sizes,
        )


def opened(reference: str, release: Release | None = None) -> Subject:
    """A release, ready to be looked at. Raises TargetError when its module cannot answer its example."""
    reference = absolute(reference)
    release = release or releases.load(reference)
    model = release.module().eval().requires_grad_(requires_grad=False)
    example = release.sample()
    try:
        with torch.inference_mode():
            output = model(*example)
    except Exception as error:
        raise TargetError(
            f"`{release.name}` does not answer its example",
            because=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}",
            hint="call `release.module()(*release.sample())` in a Python session",
        ) from error
    signature = Signature(inputs=_ports(release, example), outputs=_outputs(output, rows=len(example[0])))
    return Subject(
        release=release,
        reference=reference,
        model=model,
        example=example,
        signature=signature,
        hash=named(model),
        dynamic=release.dynamic,
    )


def absolute(reference: str) -> str:
    """A reference that means the same in any folder.

    >>> absolute("torchlike.package:Net")
    'torchlike.package:Net'
    """
    where, colon, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    if where.endswith(".py"):
        where = str(Path(where).expanduser().resolve())
    return f"{where}{colon}{name}"


def _ports(release: Release, example: tuple[Tensor, ...]) -> tuple[Port, ...]:
    names = release.names or (("input",) if len(example) == 1 else tuple(f"input{at}" for at in range(len(example))))
    if len(names) != len(example):
        raise TargetError(
            f"`{release.name}` names {len(names)} inputs",
            because=f"its example has {len(example)}",
            hint="give one name for each input: `names=(…)`",
        )
    return tuple(
        Port(name=name, dtype=_dtype(tensor), shape=tuple(tensor.shape[1:]))
        for name, tensor in zip(names, example, strict=True)
    )


def _outputs(output: Any, *, rows: int) -> tuple[Port, ...]:
    found = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    if not found or any(leaf.dim() == 0 or len(leaf) != rows for leaf in found):
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in found) or "none"
        raise TargetError(
            f"the module does not give one answer per row for {rows} rows",
            because=f"its outputs have the shapes {shapes}",
            hint="what is served is answered row by row: give outputs whose first dimension counts rows",
        )
    names = ("output",) if len(found) == 1 else tuple(f"output{at}" for at in range(len(found)))
    return tuple(
        Port(name=name, dtype="float32" if leaf.is_floating_point() else _dtype(leaf), shape=tuple(leaf.shape[1:]))
        for name, leaf in zip(names, found, strict=True)
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def flat(output: Any) -> Arrays:
    """The tensors of an output as arrays, in the order in which PyTorch flattens it; floating-point numbers as float32."""
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return tuple(leaf.float().numpy() if leaf.is_floating_point() else leaf.numpy() for leaf in leaves)


def named(model: nn.Module) -> str:
    """A hash of what the module computes: its layers, the source of its classes, and every weight and buffer."""
    digest = hashlib.sha256(repr(model).encode())
    for kind in sorted({type(module) for module in model.modules()}, key=lambda kind: kind.__qualname__):
        try:
            digest.update(inspect.getsource(kind).encode())
        except (OSError, TypeError):
            digest.update(kind.__qualname__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def real_rows(subject: Subject, count: int) -> Arrays:
    """At most so many rows of real inputs, in every class: of the validation data, else of the calibration data, else the example."""
    release = subject.release
    data = release.validation_data()
    data = data if data is not None else release.calibration_data()
    inputs = len(subject.example)
    if data is None:
        return tuple(tensor.numpy() for tensor in subject.example)
    chosen = releases.stratified(release, data, count) if release.groups is None else range(min(count, len(data)))  # type: ignore[arg-type]
    rows = [data[at] for at in chosen]
    parts = [row if isinstance(row, tuple | list) else (row,) for row in rows]
    return tuple(torch.stack([torch.as_tensor(part[at]) for part in parts]).numpy() for at in range(inputs))


def all_rows(subject: Subject) -> Iterator[tuple[Arrays, Any]]:
    """The whole validation set in batches of inputs and targets; nothing where none is declared."""
    data = subject.release.validation_data()
    if data is None:
        return
    inputs = len(subject.example)
    for batch in batches(data, AT_ONCE):
        yield tuple(part.numpy() for part in batch[:inputs]), batch[inputs] if len(batch) > inputs else None
