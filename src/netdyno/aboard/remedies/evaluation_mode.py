"""Put a model that trains into evaluation mode for each call without gradients, and back afterwards."""

from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls of modules."""
    import torch

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.is_grad_enabled() or not model.training or torch.compiler.is_compiling():
            return call(model, *args, **kwargs)
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            return call(model, *args, **kwargs)
        finally:
            for module, mode in modes:
                module.training = mode

    around_calls(observer, "evaluation mode", around)
