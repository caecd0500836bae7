"""A model as a graph: one for any number of rows where that can be had, otherwise one for each number of rows."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netdyno.runtimes._base import Arrays, Exportable

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram

ANY = 0  # stands for any number of rows


class Graphs(NamedTuple):
    """Exported programs by the number of rows they take (`ANY` alone, or counts), and what a person should know."""

    by_rows: "dict[int, ExportedProgram]"
    notes: tuple[str, ...] = ()


def graphs(subject: Exportable, model: "nn.Module | None" = None, *, most: int | None = None) -> Graphs:
    """The subject's model, or another form of it, as `torch.export` writes it. Any number of rows means up to `most` where it is given."""
    model = subject.model if model is None else model
    if not subject.dynamic:
        return Graphs({rows: exported(subject, model, rows) for rows in subject.batches})
    try:
        return Graphs({ANY: exported(subject, model, ANY, most=most)})
    except Exception as error:
        fixed = Graphs({rows: exported(subject, model, rows) for rows in subject.batches})
        counts = ", ".join(map(str, subject.batches))
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        note = f"the number of rows is baked into the model, so it is built for {counts} alone ({reason[:200]})"
        return fixed._replace(notes=(note,))


def exported(subject: Exportable, model: "nn.Module", rows: int, *, most: int | None = None) -> "ExportedProgram":
    """One graph, for so many rows or for any number, up to `most` where it is given."""
    import torch

    if rows != ANY:
        return torch.export.export(model, tuple(sized(tensor, rows) for tensor in subject.example))
    counted = torch.export.Dim.DYNAMIC if most is None else torch.export.Dim("rows", min=1, max=most)
    moving = tuple(
        {0: counted} | {at + 1: torch.export.Dim.DYNAMIC for at, length in enumerate(port.shape) if length is None}
        for port in subject.signature.inputs
    )
    return torch.export.export(model, subject.example, dynamic_shapes=_over(model, moving))


def _over(model: "nn.Module", moving: tuple[Any, ...]) -> tuple[Any, ...]:
    """A forward that takes `*inputs` is described by one tuple for all of them."""
    import inspect

    parameters = list(inspect.signature(model.forward).parameters.values())
    variadic = [at for at, one in enumerate(parameters) if one.kind is inspect.Parameter.VAR_POSITIONAL]
    return (*moving[: variadic[0]], moving[variadic[0] :]) if variadic else moving


def sized(tensor: "Tensor", rows: int) -> "Tensor":
    """So many rows: the first ones, or all of them over again where there are too few."""
    times = -(-rows // len(tensor))
    return tensor.repeat(times, *(1,) * (tensor.dim() - 1))[:rows] if times > 1 else tensor[:rows].clone()


def file_for(folder: Path, suffix: str, rows: int) -> Path:
    """Where the graph for so many rows lies: `model.onnx` for any, `model-8.onnx` for eight."""
    return folder / (f"model{suffix}" if rows == ANY else f"model-{rows}{suffix}")


def files_in(folder: Path, suffix: str) -> dict[int, Path]:
    """The files of an artefact by the number of rows that they take."""
    whole = folder / f"model{suffix}"
    if whole.is_file():
        return {ANY: whole}
    found = {int(path.stem.partition("-")[2]): path for path in folder.glob(f"model-*{suffix}")}
    return dict(sorted(found.items()))


def in_batches(inputs: "Iterable[tuple[Tensor, ...]]", rows: int) -> Iterator[Arrays]:
    """Rows that came one by one, so many at a time; what is left over at the end is filled up with its last row.

    >>> import torch
    >>> [batch[0].tolist() for batch in in_batches([(torch.tensor([k]),) for k in range(3)], 2)]
    [[0, 1], [2, 2]]
    """
    waiting: list[tuple[Tensor, ...]] = []
    for one in inputs:
        waiting.append(one)
        if len(waiting) == rows:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting + waiting[-1:] * (rows - len(waiting)))


def _joined(rows: "Sequence[tuple[Tensor, ...]]") -> Arrays:
    return tuple(np.concatenate([tensor.numpy() for tensor in column]) for column in zip(*rows, strict=True))
