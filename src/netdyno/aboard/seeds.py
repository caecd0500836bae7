"""The same start for every run: seeds at import, and the one-ulp nudge that shows what rounding alone does."""

import functools
import sys
from types import ModuleType
from typing import Any

from .boot import after_import

NUMPY_LARGEST = 2**32  # numpy's seeds are 32 bits wide


def plant(seed: int | None) -> None:
    """Seed Python's, torch's and numpy's global generators; numpy's when it gets imported, if it is not there yet.

    A script that seeds itself later wins, as it would have without us.
    """
    if seed is None:
        return
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy.random" in sys.modules:
        _seed_numpy(seed, sys.modules["numpy.random"])
    else:
        after_import("numpy.random", lambda module: _seed_numpy(seed, module))


def shift(by: int) -> None:
    """Add `by` to every seed that the script gives to Python, numpy or torch: another run of the same script.

    Generators that a script makes of its own keep their seed, but for numpy's `default_rng`.
    """
    import random

    import torch

    for owner, name in ((random, "seed"), (torch, "manual_seed"), (torch.random, "manual_seed")):
        setattr(owner, name, _shifted(getattr(owner, name), by))
    if "numpy.random" in sys.modules:
        _shift_numpy(by, sys.modules["numpy.random"])
    else:
        after_import("numpy.random", lambda module: _shift_numpy(by, module))


def _shift_numpy(by: int, module: ModuleType) -> None:
    for name in ("seed", "default_rng"):
        setattr(module, name, _shifted(getattr(module, name), by))


def _shifted(original: Any, by: int) -> Any:
    def seeded(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
        moved = (seed + by) % NUMPY_LARGEST if isinstance(seed, int) and not isinstance(seed, bool) else seed
        return original(moved, *args, **kwargs)

    return functools.wraps(original)(seeded)


def _seed_numpy(seed: int, module: ModuleType) -> None:
    module.seed(seed % NUMPY_LARGEST)


def nudge(model: Any, units: int) -> int:
    """Move every floating-point weight by `units` units in the last place, up, or down when negative.

    Gives the number of tensors moved. Called once per model, before its first training forward. Draws no random
    numbers, and autograd does not see it.
    """
    import torch

    moved = 0
    with torch.no_grad():
        for weight in model.parameters():
            if units and weight.is_floating_point() and weight.numel():
                _step(weight, units)
                moved += 1
    return moved


def _step(weight: Any, units: int) -> None:
    import torch

    end = torch.full((), float("inf") if units > 0 else float("-inf"), dtype=weight.dtype, device=weight.device)
    moved = weight.detach()
    for _ in range(abs(units)):
        moved = torch.nextafter(moved, end)
    # Through `.data`, so that the version counter stays as it was: a graph may already hold the weight.
    weight.data.copy_(moved)
