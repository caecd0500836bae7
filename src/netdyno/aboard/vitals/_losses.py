"""Hears every loss of torch.nn.functional, also those that are called without gradients."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from ..asides import LOSSES
from ..patches import Patches, at_home
from ._base import LossCall, Watch

if TYPE_CHECKING:
    from ..observe import Observer


def patch(patches: Patches, observer: "Observer", watch: Watch) -> None:
    """Replace the losses, and the clipping functions, once more: outermost."""
    import torch
    import torch.nn.functional as F

    for name in LOSSES:
        patches.replace(f"vital {name}", F, name, partial(_loss, observer, watch, name))
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        for module in (torch.nn.utils.clip_grad, torch.nn.utils):
            patches.replace(f"vital {name}", module, name, partial(_clip, observer, watch, name))


def _loss(observer: "Observer", watch: Watch, name: str, original: Any) -> Any:
    # No globals within: the function moves to the original's module, where torch.jit.script reads it.
    is_compiling, is_grad_enabled, frame_of, told = (
        observer.is_compiling, observer.is_grad_enabled, sys._getframe, LossCall,
    )  # fmt: skip

    def functional(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if observer.deaf and is_grad_enabled():
            return result
        if not is_compiling() and not watch.busy and not observer.backwards and observer.candidate():
            watch.judged(told(name, args, kwargs, result, is_grad_enabled(), frame_of(1)))
        return result

    return at_home(functional, original)


def _clip(observer: "Observer", watch: Watch, name: str, original: Any) -> Any:
    import torch

    sleep, item, tensor, gives_norm = observer.sleep, observer.item, torch.Tensor, name == "clip_grad_norm_"

    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        # A generator of parameters can be read once.
        parameters = [parameters] if isinstance(parameters, tensor) else list(parameters)
        result = original(parameters, *args, **kwargs)
        if watch.busy or not observer.candidate():
            return result
        if sleep.on and sleep.clips and gives_norm and isinstance(result, tensor) and result.is_cpu:
            norm = item(result)
            if norm - norm == 0.0:
                return result
            observer.wake()
        limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
        watch.tell("clip", name, parameters, limit, result)
        return result

    return clip
