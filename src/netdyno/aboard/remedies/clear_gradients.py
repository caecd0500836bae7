"""Clear the gradients after each step of their optimizer, as `optimizer.zero_grad()` before the next backward pass would."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """At the end of every step of an optimizer; with `all` those of every optimizer that has stepped, whoever steps."""
    import weakref

    from torch.optim.optimizer import register_optimizer_step_post_hook

    seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def clear(optimizer: Any, *_: Any) -> None:
        seen.add(optimizer)
        for each in list(seen) if settings.get("all") else [optimizer]:
            each.zero_grad()

    register_optimizer_step_post_hook(clear)
