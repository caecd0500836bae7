"""Divide the gradients by `by` before each step: what dividing each micro-batch's loss by their number does."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Before every step of an optimizer."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    by = float(settings.get("by", 1.0))

    def divide(optimizer: Any, *_: Any) -> None:
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            torch._foreach_div_(gradients, by)

    register_optimizer_step_pre_hook(divide)
