"""The room's own machinery: which remedies there are, and what several of them lean on."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ..frames import user_line

Settings = Mapping[str, Any]


def names() -> list[str]:
    """The ids of all remedies."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(
        name[:-3].replace("_", "-") for name in os.listdir(here) if name.endswith(".py") and not name.startswith("_")
    )


def find(name: str) -> ModuleType:
    """The file of a remedy. Raises LookupError."""
    if name not in names():
        raise LookupError(f"there is no remedy `{name}`")
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)


def arguments_of_optimizers(observer: Any, change: Callable[[type, dict[str, Any]], dict[str, Any]]) -> None:
    """Have what an optimizer is constructed with pass through `change`, which gets its class and the arguments by name."""
    observer.view.optimizer_arguments.append(change)


def around_calls(observer: Any, point: str, around: Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Have every call of a module pass through `around(call, module, args, kwargs)`; `call` is what was there before."""
    import torch

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            return around(original, self, args, kwargs)

        return __call__

    observer.replacements.replace(point, torch.nn.Module, "__call__", make)


def at_place(settings: Settings, depth: int = 1) -> bool:
    """Whether the call was made on the user's line that `settings` name; anywhere, if they name none.

    `depth` is the number of calls between the question and the call that is meant. A file matches by its name, since
    the script may run in a copy of its folder.
    """
    wanted = settings.get("line")
    if wanted is None:
        return True
    line = user_line(sys._getframe(depth + 1))
    return line.line == wanted and os.path.basename(line.file) == os.path.basename(str(settings.get("file", line.file)))


def functions_named(name: str) -> list[tuple[Any, str]]:
    """Where a function of PyTorch stands that scripts call by this name: functional, torch, Tensor."""
    import torch
    import torch.nn.functional as F

    return [(owner, name) for owner in (F, torch, torch.Tensor) if hasattr(owner, name)]
