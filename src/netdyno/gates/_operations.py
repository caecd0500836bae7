"""Every operation of a forward as PyTorch carries it out, whichever function, module or script it came from, with the user's line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from netdyno.gates._base import Inputs

# (operation, its arguments, what it gave): called after each.
Look = Callable[[Any, tuple[Any, ...], Any], None]

TORCH = str(Path(torch.__file__).parent)
OURS = str(Path(__file__).parent / "_")


class _Watched(TorchDispatchMode):
    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.look(func, args, out)
        return out


def watched(model: torch.nn.Module, inputs: Inputs, look: Look) -> Any:
    """The module's output to some rows; `look` sees every operation on the way."""
    with torch.no_grad(), _Watched(look):
        return model(*inputs)


def tensors(value: Any) -> list[Tensor]:
    """The tensors in a value, however nested."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def name_of(func: Any) -> str:
    """An operation as it is written: `aten.bernoulli_.float` is bernoulli."""
    return str(getattr(func, "overloadpacket", func)).rpartition(".")[2].strip("_")


def is_random(func: Any) -> bool:
    """True for an operation that draws from a generator."""
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def place() -> str:
    """`file.py:12`, the innermost line that is the user's own; empty where a module of PyTorch itself is called by nobody else."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, OURS, "<")) and "contextlib" not in file:
            return f"{Path(file).name}:{frame.f_lineno}" if _is_forward(frame) else ""
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _is_forward(frame: Any) -> bool:
    """A line of a module's code, not of the item that called it: the call of the module is further out."""
    while frame is not None:
        if frame.f_code is watched.__code__:
            return True
        frame = frame.f_back
    return False
