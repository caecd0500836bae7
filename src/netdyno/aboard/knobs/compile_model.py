"""Call a compiled form instead of the models' forward in training. It compiles in the first steps after it came on."""

import atexit
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from typing import Any

from ._base import Settings, device_of

WHEN = "toggle"
STAGE = 40
# PyTorch takes either a mode or options, so a mode is written out as the options that it stands for.
MODES: dict[str, dict[str, Any]] = {"default": {}, "reduce-overhead": {"triton.cudagraphs": True}}
FOLDER = "TORCHINDUCTOR_CACHE_DIR"
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if not view.models:
        return "no model was seen in training"
    if _compiled_by_script(view):
        return "the script already compiles itself"
    mode = settings.get("mode", "default")
    if mode not in MODES:
        return f"`{mode}` is not among the modes that are tried: {', '.join(MODES)}"
    device = device_of(view)
    if device == "cpu":
        return _no_compiler()
    if device == "cuda":
        return None if importlib.util.find_spec("triton") else "compiling for a GPU needs the package `triton`"
    return f"it is tried on a CPU and on CUDA only, and the model is on `{device}`"


def _compiled_by_script(view: Any) -> bool:
    for model in view.models:
        for module in model.modules():
            if "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None:
                return True
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    # A compiled function of the script shows only in the compiler's own count, and so does what was compiled here.
    return not _ours and bool(counters.get("frames", {}).get("total", 0))


def _no_compiler() -> str | None:
    wanted = os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    if shutil.which(wanted.split()[0]) is None:
        return f"compiling for a CPU needs a C++ compiler, and there is no `{wanted}` (install it, or set CXX)"
    headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not os.path.exists(headers):
        return f"compiling for a CPU needs Python's headers, and there is no `{headers}`"
    return None


_ours: list[str] = []  # the folder of what was compiled here, once something was


def _own_folder() -> str:
    """A fresh folder for compiled code: the user's own stays as it is, and nothing found there makes a trial cheap."""
    if not _ours:
        _ours.append(tempfile.mkdtemp(prefix="netdyno-compiled-"))
        atexit.register(shutil.rmtree, _ours[0], ignore_errors=True)
    return _ours[0]


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._mode = settings.get("mode", "default")
        self._dynamic = settings.get("dynamic")
        self._forms: dict[int, Any] = {}  # kept from one time to the next, so that each model is compiled once
        self._standing: list[int] = []
        self._folder: str | None = None

    def on(self) -> None:
        self._folder = os.environ.get(FOLDER)
        os.environ[FOLDER] = _own_folder()
        for model in self._view.models:
            if id(model) not in self._view.calls:
                if id(model) not in self._forms:
                    self._forms[id(model)] = self._form(model)
                self._view.calls[id(model)] = self._forms[id(model)]
                self._standing.append(id(model))

    def off(self) -> None:
        while self._standing:
            self._view.calls.pop(self._standing.pop(), None)
        if self._folder is None:
            os.environ.pop(FOLDER, None)
        else:
            os.environ[FOLDER] = self._folder

    def _form(self, model: Any) -> Any:
        import torch

        # `fallback_random` draws random numbers as PyTorch does without compilation, so that dropout masks agree.
        options = {**MODES[self._mode], "fallback_random": True}

        # The whole call, hooks included, as `model = torch.compile(model)` would have it.
        def traced(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

        compiled = torch.compile(traced, dynamic=self._dynamic, options=options)

        # Evaluation would compile a second form, which no training step is the quicker for.
        def called(*args: Any, **kwargs: Any) -> Any:
            return (compiled if torch.is_grad_enabled() else model)(*args, **kwargs)

        return called
