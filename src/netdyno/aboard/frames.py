"""Which line of the user's script a stack belongs to."""

import os
import sysconfig
from types import CodeType, FrameType
from typing import NamedTuple

USER, FRAMEWORK, OURS = range(3)
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple(
    {os.path.abspath(path) + os.sep for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib")}
)
# Deep enough for a Lightning training step inside an optimizer's closure, several times over.
DEEPEST = 200

_kinds: dict[CodeType, int] = {}


class Line(NamedTuple):
    """A place in source code."""

    file: str
    line: int
    function: str


NOWHERE = Line("", 0, "")


def kind(code: CodeType) -> int:
    """Whose code it is, by its file."""
    found = _kinds.get(code)
    if found is None:
        found = _kinds[code] = _by_file(code.co_filename)
    return found


def is_ours(file: str) -> bool:
    """True for a file of those who ride aboard."""
    return os.path.abspath(file).startswith(_HERE)


def _by_file(file: str) -> int:
    if file.startswith("<"):  # generated code, e.g. frozen importlib; an exec of the user has no file to show either
        return FRAMEWORK
    path = os.path.abspath(file)
    if is_ours(path):
        return OURS
    if "site-packages" in path or "dist-packages" in path or path.startswith(_LIBRARIES):
        return FRAMEWORK
    return USER


def _is_user(frame: FrameType) -> bool:
    # The script itself may be an installed module (`python -m package.train`).
    return kind(frame.f_code) == USER or (
        frame.f_globals.get("__name__") == "__main__" and not frame.f_code.co_filename.startswith("<")
    )


def user_line(frame: FrameType | None) -> Line:
    """The innermost line on the stack that the user wrote."""
    for _ in range(DEEPEST):
        if frame is None:
            break
        if _is_user(frame):
            return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return NOWHERE


def two_levels(frame: FrameType | None) -> tuple[Line, str | None]:
    """The user's line, and the innermost function of a framework that it is in, if any."""
    framework = None
    for _ in range(DEEPEST):
        if frame is None:
            break
        if _is_user(frame):
            return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name), framework
        if framework is None and kind(frame.f_code) == FRAMEWORK:
            module = frame.f_globals.get("__name__", "")
            framework = (
                f"{module}.{frame.f_code.co_qualname if hasattr(frame.f_code, 'co_qualname') else frame.f_code.co_name}"
            )
        frame = frame.f_back
    return NOWHERE, framework
