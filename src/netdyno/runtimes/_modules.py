"""What PyTorch's own runtimes share: the module found again, tensors with so many rows, and a module as a call of arrays.

It imports torch, so runtimes import it where they export or load.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from netdyno.errors import ArmError
from netdyno.runtimes._base import Arrays, Call, Exportable, as_floats
from netdyno.targets import release as releases

SOURCE, WEIGHTS, ROWS = "source.json", "weights.pt", "rows.npz"
# How many rows an artefact keeps to be compiled with: what depends on their number shows from two on.
KEPT_ROWS = 2


def kept(subject: Exportable, folder: Path) -> tuple[str, ...]:
    """Write where the module's code is, its weights, and a few rows; gives the note that goes with it."""
    (folder / SOURCE).write_text(json.dumps({"reference": subject.reference}))
    torch.save(subject.model.state_dict(), folder / WEIGHTS)
    rows = [tensor[:KEPT_ROWS].numpy() for tensor in subject.example]
    np.savez(folder / ROWS, allow_pickle=False, **{f"input{at}": array for at, array in enumerate(rows)})
    return (f"loading it needs the code of `{subject.reference}`",)


def module_in(folder: Path) -> nn.Module:
    """The module of such an artefact, with the weights that were exported, in eval mode."""
    release = releases.load(json.loads((folder / SOURCE).read_text())["reference"])
    model = release.module().eval().requires_grad_(requires_grad=False)
    model.load_state_dict(torch.load(folder / WEIGHTS, weights_only=True))
    return model


def rows_in(folder: Path) -> Arrays:
    """The rows of such an artefact."""
    with np.load(folder / ROWS, allow_pickle=False) as held:
        return tuple(held[f"input{at}"] for at in range(len(held.files)))


def prepared(model: nn.Module, *, bf16: bool = False, channels_last: bool = False) -> nn.Module:
    """The module with its weights in another precision or order."""
    if bf16:
        model = model.to(torch.bfloat16)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def called(
    function: Callable[..., Any], *, bf16: bool = False, channels_last: bool = False, dynamic: bool = False
) -> Call:
    """A function of tensors as a call of arrays, without gradients; floating-point inputs are cast where the weights are.

    `dynamic` tells a compiler that two rows or more stand for any number of them.
    """

    def placed(array: Any) -> Tensor:
        # PyTorch warns of arrays that cannot be written to: they are somebody else's.
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if bf16 and tensor.is_floating_point():
            tensor = tensor.to(torch.bfloat16)
        if channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        if dynamic and len(tensor) > 1:
            torch._dynamo.mark_dynamic(tensor, 0)
        return tensor

    def call(arrays: Arrays) -> Arrays:
        with torch.inference_mode():
            return answers(function(*map(placed, arrays)))

    return call


def answers(output: Any) -> Arrays:
    """The tensors of whatever a module gives, in the order in which PyTorch flattens it."""
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return as_floats(leaf.float().numpy() if leaf.is_floating_point() else leaf.numpy() for leaf in leaves)


def sizes(subject: Exportable) -> tuple[int | None, ...]:
    """The numbers of rows that are exported one by one; None alone stands for any number."""
    return (None,) if subject.dynamic else tuple(sorted(subject.batches))


def sized(tensors: tuple[Tensor, ...], rows: int | None) -> tuple[Tensor, ...]:
    """The tensors with so many rows, the last ones again where there are too few; as they are for None."""
    if rows is None:
        return tensors
    return tuple(torch.cat([tensor] * -(-rows // len(tensor)))[:rows].contiguous() for tensor in tensors)


def name_for(rows: int | None) -> str:
    """What the file for a number of rows is called, without its ending."""
    return "model" if rows is None else f"rows{rows}"


def by_rows(folder: Path, ending: str, load: Callable[[Path], Call]) -> Call:
    """The call of every file of an artefact, chosen by the number of rows; `model` takes those that have no file of their own."""
    calls = {path.stem: load(path) for path in sorted(folder.glob(f"*.{ending}"))}
    if not calls:
        raise FileNotFoundError(f"there is no *.{ending} in `{folder}`")

    def call(arrays: Arrays) -> Arrays:
        chosen = calls.get(name_for(len(arrays[0])), calls.get("model"))
        if chosen is None:
            there = ", ".join(sorted(name.removeprefix("rows") for name in calls))
            raise ValueError(f"{len(arrays[0])} rows were given; it was exported for {there}")
        return chosen(arrays)

    return calls["model"] if list(calls) == ["model"] else call


def first_line(error: BaseException) -> str:
    """What an error says first: those of PyTorch run over pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removesuffix(".") if lines else type(error).__name__


def refused(what: str, error: BaseException) -> ArmError:
    """An export that failed, in one line."""
    return ArmError(f"{what}: {first_line(error)}")
