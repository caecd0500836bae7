"""Clip the norm of all gradients of an optimizer to `max_norm` before each of its steps."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Before every step of an optimizer."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    limit = float(settings.get("max_norm", 1.0))

    def clip(optimizer: Any, *_: Any) -> None:
        weights = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(weights, limit)

    register_optimizer_step_pre_hook(clip)
