"""Attributes of torch that are replaced for the ride, and put back as they were."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

_NONE = object()


class Patches:
    """Replaces attributes and puts them back. Each has a name, under which the self-test speaks of it."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any, Any]] = []
        self.missing: dict[str, str] = {}

    def replace(self, point: str, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` where `owner.name` was. What this torch does not have is noted as missing."""
        try:
            original = getattr(owner, name)
            own = vars(owner).get(name, _NONE)
            stand_in = _like(make(original), original)
            setattr(owner, name, stand_in)
        except (AttributeError, TypeError) as error:
            self.missing[point] = f"{type(error).__name__}: {error}"
            return
        self._kept.append((owner, name, own, stand_in))

    def drop(self, owner: Any, names: Iterable[str]) -> None:
        """Put back these attributes of `owner` and no others; what somebody else has replaced since stays for `undo`."""
        wanted, chosen = set(names), Patches()
        others: list[tuple[Any, str, Any, Any]] = []
        for kept in self._kept:
            mine = kept[0] is owner and kept[1] in wanted and vars(owner).get(kept[1]) is kept[3]
            (chosen._kept if mine else others).append(kept)
        self._kept = others
        chosen.undo()

    def undo(self) -> None:
        """Everything as it was, except what somebody else has replaced since: that is theirs to put back."""
        while self._kept:
            owner, name, own, stand_in = self._kept.pop()
            if vars(owner).get(name) is not stand_in:
                continue
            if own is _NONE:
                delattr(owner, name)  # it was inherited
            else:
                setattr(owner, name, own)


def _like(stand_in: Any, original: Any) -> Any:
    functools.update_wrapper(stand_in, original)
    return stand_in


def at_home(stand_in: Any, original: Any) -> Any:
    """The same function with the globals of the original.

    torch.jit.script reads the original's source, which it finds through `__wrapped__`, but looks its names up in the
    globals of what it was given. Only for functions that use no globals of their own.
    """
    moved = FunctionType(
        stand_in.__code__, original.__globals__, original.__name__, stand_in.__defaults__, stand_in.__closure__
    )
    moved.__kwdefaults__ = stand_in.__kwdefaults__
    return moved


def hide(package: str) -> None:
    """Tell torch.compile to leave every function of `package` alone, so that it begins where it would without us.

    A script's compiled function that breaks at `.item()` calls ours while the compiler still listens.
    """
    skip = _skipper()
    if skip is None:  # the wrappers still pass by themselves while something is traced
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(package + "."):
            for value in list(vars(module).values()):
                for code in _codes(value, name):
                    skip(code)


def _skipper() -> Callable[[CodeType], None] | None:
    """What torch.compile's own `skip_code` does, without importing the compiler, which takes a second."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

        strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT)
    except (ImportError, AttributeError, TypeError):  # another torch
        return None
    return lambda code: set_code_exec_strategy(code, strategy)


def _codes(value: Any, module: str) -> Iterator[CodeType]:
    """All code in a function or class that was defined in `module`."""
    if getattr(value, "__module__", None) != module:
        return
    members = vars(value).values() if isinstance(value, type) else (value,)
    for member in members:
        function = getattr(member, "fget", None) or getattr(member, "__wrapped__", None) or member
        function = getattr(function, "__func__", function)
        if isinstance(function, FunctionType):
            yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
