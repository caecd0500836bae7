"""Ignore a clearing of gradients that comes between a backward pass and the step that should have used them."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In zero_grad of optimizers and modules; gradients are cleared after the step instead."""
    import torch
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    fresh = [False]  # a backward pass has been made since the last step

    def backward(original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            fresh[0] = True
            return result

        return backward

    def zero_grad(original: Any) -> Any:
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            return None if fresh[0] else original(self, *args, **kwargs)

        return zero_grad

    def stepped(optimizer: Any, *_: Any) -> None:
        fresh[0] = False
        optimizer.zero_grad()

    observer.replacements.replace("keep gradients", torch.autograd, "backward", backward)
    for owner in (Optimizer, torch.nn.Module):
        observer.replacements.replace("keep gradients", owner, "zero_grad", zero_grad)
    register_optimizer_step_post_hook(stepped)
