"""Treat numbers too small for full precision as zero, in the training thread and in its team."""

import ctypes
from typing import Any

from ._base import Settings, device_of, form_the_team, parameters

WHEN = "toggle"
STAGE = 50
EARLY = True
LEAST_SHARE = 0.001  # one in a thousand, at 15 times the price, costs 1.5 % of the operators that touch it
HARD_PAUSE = 2  # omp_pause_hard: OpenMP gives back all it holds, its threads included
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    import torch

    if device_of(view) != "cpu":
        return f"it is a mode of the CPU, and the model is on `{device_of(view)}`"
    if flushing():
        return "the script already flushes such numbers to zero"
    if torch.get_num_threads() > 1 and _pause() is None:
        return "OpenMP's threads cannot be made anew here, and each keeps the mode it was born with"
    denormal, numbers = _counted(view)
    if not numbers or denormal / numbers < LEAST_SHARE:
        return f"of {numbers} weights and numbers of optimizer state, {denormal} are too small for full precision"
    return None


def _counted(view: Any) -> tuple[int, int]:
    import torch

    held = [*parameters(view), *(buffer for model in view.models for buffer in model.buffers())]
    for optimizer in view.optimizers:
        held += [each for state in optimizer.state.values() for each in state.values() if torch.is_tensor(each)]
    denormal = numbers = 0
    for tensor in held:
        if tensor.is_floating_point():
            size = tensor.detach().abs()
            denormal += int(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).sum())
            numbers += tensor.numel()
    return denormal, numbers


def flushing() -> bool:
    """True when the calling thread flushes. PyTorch can set the mode but not tell it, so a number is tried."""
    import torch

    return bool((torch.tensor([1e-310], dtype=torch.float64) * 1.0 == 0).item())


def _set_everywhere(*, on: bool) -> None:
    import torch

    torch.set_flush_denormal(on)
    pause = _pause()
    if pause is not None:
        pause(HARD_PAUSE)
    form_the_team()


_found: list[Any] = []


def _pause() -> Any:
    """`omp_pause_resource_all` of the OpenMP library that PyTorch has loaded, or None."""
    if not _found:
        _found.append(_looked_up())
    return _found[0]


def _looked_up() -> Any:
    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split()[-1] for line in maps if "gomp" in line}
    except OSError:
        return None
    # More than one copy, and nobody can say whose threads they are.
    return getattr(ctypes.CDLL(loaded.pop()), "omp_pause_resource_all", None) if len(loaded) == 1 else None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._before = False

    def on(self) -> None:
        self._before = flushing()
        _set_everywhere(on=True)

    def off(self) -> None:
        _set_everywhere(on=self._before)
