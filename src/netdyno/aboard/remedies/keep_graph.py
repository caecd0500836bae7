"""Let `detach()` within a model's forward pass cut nothing while it trains."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In Tensor.detach, inside of top-level calls with gradients; buffers and statistics are written under no_grad anyway."""
    import torch

    def make(original: Any) -> Any:
        def detach(self: Any) -> Any:
            return self if observer.inside and torch.is_grad_enabled() and self.grad_fn is not None else original(self)

        return detach

    observer.replacements.replace("keep graph", torch.Tensor, "detach", make)
