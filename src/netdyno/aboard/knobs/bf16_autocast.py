"""Multiply matrices in bfloat16 from a top-level training forward to its backward, the loss included."""

import gc
import platform
from typing import Any

from ._base import Settings, device_of, drop, parameters, watch

WHEN = "toggle"
STAGE = 30
EARLY = True
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    device = device_of(view)
    if device not in {"cpu", "cuda"}:
        return f"it is tried on a CPU and on CUDA only, and the model is on `{device}`"
    if not _in_hardware(device):
        return "this machine has no bfloat16 instructions (AVX512-BF16, AMX): converting would only cost time"
    if watch(view).autocast:
        return "the script already runs its forward pass under autocast"
    if _scaled():
        return "the script scales its loss (`GradScaler`), so it chooses its own precision"
    return _no_gain(view)


def _no_gain(view: Any) -> str | None:
    held = parameters(view)
    types = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in held})
    if held and "float32" not in types:
        return f"the model's parameters are {', '.join(types)}; autocast lowers float32 only"
    if held and all(parameter.dim() < 2 for parameter in held):
        return "the model has no weight matrix, so no product that a lower precision would quicken"
    return None


def _in_hardware(device: str) -> bool:
    import torch

    if device == "cuda":
        return bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False))
    if torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported():
        return True
    if platform.machine() != "aarch64":
        return False
    try:
        with open("/proc/cpuinfo") as file:
            return any(line.startswith("Features") and "bf16" in line.split() for line in file)
    except OSError:
        return False


def _scaled() -> bool:
    """True when a gradient scaler is in use: no other place knows of it, so all objects are asked for their class."""
    import torch

    return any(issubclass(type(each), torch.amp.GradScaler) and each.is_enabled() for each in gc.get_objects())


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view

    def _autocast(self) -> Any:
        import torch

        return torch.autocast(device_of(self._view), dtype=torch.bfloat16)

    def on(self) -> None:
        self._entry = self._autocast  # a bound method is a new object at each look: kept, to be found again
        self._view.around_forward.append(self._entry)

    def off(self) -> None:
        drop(self._view.around_forward, self._entry)
