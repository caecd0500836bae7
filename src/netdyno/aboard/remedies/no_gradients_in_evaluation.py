"""Record no graph while a model is in evaluation mode: what `torch.no_grad()` around validation does."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls of modules in evaluation mode whose weights all want gradients."""
    import torch

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            idle = not self.training and torch.is_grad_enabled() and not observer.inside
            if not idle or not all(parameter.requires_grad for parameter in self.parameters()):
                return original(self, *args, **kwargs)
            with torch.no_grad():
                return original(self, *args, **kwargs)

        return __call__

    observer.replacements.replace("no gradients", torch.nn.Module, "__call__", make)
