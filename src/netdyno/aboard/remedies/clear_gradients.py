"""Clear the gradients after each step of their optimizer, as `optimizer.zero_grad()` before the next backward pass would."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """At the end of every step of an optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())
