"""Which of the user's variables hold a graph, or swell: read from the frames that are at work, and let go at once."""

import ast
import sys
from collections import deque
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from types import FrameType
from typing import Any, NamedTuple

from ..frames import DEEPEST, USER, kind

# A function with more variables than this is generated; a script's own class seldom has more attributes.
MOST = 200
LISTS = (list, dict, set, deque)


class Named(NamedTuple):
    """A variable, or an attribute of `self`, and its value."""

    name: str
    file: str
    function: str
    value: Any


def variables(frame: FrameType | None) -> Iterator[Named]:
    """Variables of the user's functions on the stack, of their modules, and attributes of their objects."""
    seen: set[int] = set()
    for _ in range(DEEPEST):
        if frame is None:
            return
        if _mine(frame):
            yield from _of_frame(frame, seen)
        frame = frame.f_back


def _mine(frame: FrameType) -> bool:
    return kind(frame.f_code) == USER or (
        frame.f_globals.get("__name__") == "__main__" and not frame.f_code.co_filename.startswith("<")
    )


def _of_frame(frame: FrameType, seen: set[int]) -> Iterator[Named]:
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    if frame.f_locals is not frame.f_globals:
        local = dict(list(_locals(frame).items())[:MOST])
        yield from _named(local, file, function, seen)
    if id(frame.f_globals) not in seen:
        seen.add(id(frame.f_globals))
        yield from _named(dict(list(frame.f_globals.items())[:MOST]), file, "<module>", seen)


# Before Python 3.13 all who ask a function for its variables get one and the same dictionary. Where the script has asked,
# it is the script's own.
ASKS = frozenset({"locals", "vars", "dir", "eval", "exec"})
OPTIMIZED = 1  # inspect.CO_OPTIMIZED: a function's code, whose variables are no dictionary


def _locals(frame: FrameType) -> dict[str, Any]:
    """A copy. The snapshot that Python makes of a function's variables would keep what is in it alive, and is emptied."""
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & OPTIMIZED:
        return dict(frame.f_locals)
    if sys.gettrace() is not None or not ASKS.isdisjoint(frame.f_code.co_names):
        return {}
    found = dict(frame.f_locals)
    frame.f_locals.clear()
    return found


def _named(values: dict[str, Any], file: str, function: str, seen: set[int]) -> Iterator[Named]:
    for name, value in values.items():
        if name.startswith("__"):
            continue
        yield Named(name, file, function, value)
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict) and _user_made(value) and id(value) not in seen:
            seen.add(id(value))
            for inner, held in list(fields.items())[:MOST]:
                yield Named(f"{name}.{inner}", file, function, held)
            for inner, held in list(vars(type(value)).items())[:MOST]:
                if isinstance(held, _lru_cache_wrapper):
                    yield Named(f"{type(value).__name__}.{inner}", file, function, held)


def _user_made(value: Any) -> bool:
    if isinstance(value, type):
        return False
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None) or ""
    return type(value).__module__ == "__main__" or (
        bool(file) and "site-packages" not in file and "/lib/python" not in file
    )


def tensors_in(value: Any) -> Iterator[Any]:
    """The value, or the last entries of a list, tuple or dictionary of tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | deque) and value:
        yield from (one for one in (value[0], value[-1]) if isinstance(one, torch.Tensor))
        if isinstance(value[-1], list | tuple):
            yield from (one for one in value[-1] if isinstance(one, torch.Tensor))
    elif isinstance(value, dict) and value:
        for one in list(value.values())[:16]:
            if isinstance(one, torch.Tensor):
                yield one
            elif isinstance(one, list) and one and isinstance(one[-1], torch.Tensor):
                yield one[-1]


def entries(value: Any) -> int | None:
    """How many things a list, a dictionary or a cached function holds."""
    if isinstance(value, LISTS):
        return len(value)
    if isinstance(value, _lru_cache_wrapper):
        return int(value.cache_info().currsize)
    return None


def bound(value: Any) -> bool:
    """Whether something is made to hold no more than so many."""
    if isinstance(value, deque):
        return value.maxlen is not None
    return isinstance(value, _lru_cache_wrapper) and value.cache_info().maxsize is not None


def each_bytes(value: Any) -> int | None:
    """Bytes of the tensors or arrays that a list or dictionary got last."""
    try:
        last = value[-1] if isinstance(value, list | deque) else next(reversed(value.values()))
    except (IndexError, StopIteration, KeyError, AttributeError, TypeError):
        return None
    parts = last if isinstance(last, tuple | list) else last.values() if isinstance(last, dict) else (last,)
    sizes = [int(part.nbytes) for part in list(parts)[:64] if hasattr(part, "nbytes")]
    return sum(sizes) if sizes else None


# Calls that put something into a container.
PUTS = frozenset({"append", "extend", "add", "appendleft", "insert", "update", "setdefault"})


def line_of(name: str, file: str, function: str) -> int | None:
    """The line, inside a loop if there is one, that adds to a variable or assigns it from itself."""
    last = name.rpartition(".")[2]
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return None
    found = [(rank, getattr(node, "lineno", 0)) for node in ast.walk(tree) if (rank := _writes(node, last)) is not None]
    return min(found)[1] if found else None


def _writes(node: ast.AST, name: str) -> int | None:
    """0 for what grows, 1 for what is assigned from itself, 2 for a plain assignment, None for anything else."""
    if isinstance(node, ast.AugAssign) and _is(node.target, name):
        return 0
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return 0 if node.func.attr in PUTS and _is(node.func.value, name) else None
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and _is(target.value, name):
                return 0
            if any(_is(one, name) for one in (target.elts if isinstance(target, ast.Tuple) else (target,))):
                itself = any(_is(inner, name) for inner in ast.walk(node.value))
                return 1 if itself else 3
    if isinstance(node, ast.FunctionDef) and node.name == name and node.decorator_list:
        return 2
    return None


def _is(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript):
        return _is(node.value, name)
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
