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


def is_random(func: Any, args: tuple[Any, ...] = ()) -> bool:
    """True for an operation that draws from a generator. Attention is marked so too, and draws only where it drops."""
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
        return False
    return "scaled_dot_product" not in name_of(func) or any(isinstance(one, float) and one > 0 for one in args[3:5])


def place() -> str:
    """`file.py:12`, the user's innermost line under the operation being looked at; empty where PyTorch's own modules call it."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not _Watched.__torch_dispatch__.__code__:
        frame = frame.f_back  # type: ignore[assignment]
    while frame is not None and frame.f_code is not watched.__code__:
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, OURS, "<")) and "contextlib" not in file:
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
