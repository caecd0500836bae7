"""Clip no gradients: norms are computed as before, and nothing is scaled. With `factor` the limit is that much higher."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In clip_grad_norm_ and clip_grad_value_."""
    import torch

    factor = float(settings.get("factor", 1e12))

    def make(original: Any) -> Any:
        def clip(parameters: Any, limit: Any, *args: Any, **kwargs: Any) -> Any:
            return original(parameters, float(limit) * factor, *args, **kwargs)

        return clip

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        for module in (torch.nn.utils.clip_grad, torch.nn.utils):
            observer.replacements.replace("leave clipping out", module, name, make)
