"""On which lines of the user's the modules of a model were constructed, and their weights initialised."""

import sys
import weakref
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from .frames import NOWHERE, Line, user_line
from .patches import Patches

if TYPE_CHECKING:
    from .observe import Observer

# A model of more parts is not written down part by part; what is told of one is found by its name.
MOST = 500
# Constructors of classes that derive from each other, one within the other.
DEEPEST = 12
# Of nn.init: what gives a tensor its numbers.
FILLS = (
    "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "xavier_uniform_", "xavier_normal_",
    "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
)  # fmt: skip


class Made:
    """Lines by the object: a weak reference each, so that nothing lives longer for it."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[Any, Line]] = {}

    def note(self, what: Any, frame: FrameType | None) -> None:
        """This was made, or got its numbers, here: what came last counts."""
        if len(self._lines) >= MOST and id(what) not in self._lines:
            return
        line = user_line(frame)
        if line is not NOWHERE:
            self._lines[id(what)] = (weakref.ref(what), line)

    def line(self, what: Any) -> Line:
        """Where it was made; NOWHERE where nobody saw it."""
        ref, line = self._lines.get(id(what), (None, NOWHERE))
        return line if ref is not None and ref() is what else NOWHERE

    def summary(self, models: list[Any]) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]]:
        """Names of modules and of weights, as rules know them, with file and line."""
        modules: dict[str, Line] = {}
        weights: dict[str, Line] = {}
        for model in models:
            for name, module in model.named_modules():
                modules[name or type(model).__name__] = self.line(module)
            for name, weight in model.named_parameters():
                weights[name] = self.line(weight)
        return _told(modules), _told(weights)


def _told(lines: dict[str, Line]) -> list[tuple[str, str, int]]:
    known = ((name, line.file, line.line) for name, line in lines.items() if line is not NOWHERE)
    return [entry for entry, _ in zip(known, range(MOST), strict=False)]


def patch(patches: Patches, observer: "Observer", made: Made) -> None:
    """Hear of constructions and initialisations."""
    import torch

    patches.replace("module made", torch.nn.Module, "__init__", partial(_constructor, observer, made))
    for name in FILLS:
        patches.replace(f"vital {name}", torch.nn.init, name, partial(_filler, observer, made))


def _constructor(observer: "Observer", made: Made, original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if not observer.is_compiling():
            observer.guarded("module made", made.note, self, _outside(self, sys._getframe(1)))

    return __init__


def _outside(module: Any, frame: FrameType | None) -> FrameType | None:
    """The frame that constructs a module, past its own constructors."""
    for _ in range(DEEPEST):
        if frame is None or frame.f_code.co_name != "__init__" or not frame.f_code.co_varnames:
            break
        if frame.f_locals.get(frame.f_code.co_varnames[0]) is not module:
            break
        frame = frame.f_back
    return frame


def _filler(observer: "Observer", made: Made, original: Any) -> Any:
    def fill(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tensor, *args, **kwargs)
        if not observer.is_compiling():
            observer.guarded("weights filled", made.note, tensor, sys._getframe(1))
        return result

    return fill
