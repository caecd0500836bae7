"""Record no graph while a model is in evaluation mode: what `torch.no_grad()` around validation does."""

from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls of modules in evaluation mode whose weights all want gradients."""
    import torch

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        idle = not model.training and torch.is_grad_enabled() and not observer.inside
        if not idle or not all(parameter.requires_grad for parameter in model.parameters()):
            return call(model, *args, **kwargs)
        with torch.no_grad():
            return call(model, *args, **kwargs)

    around_calls(observer, "no gradients", around)
