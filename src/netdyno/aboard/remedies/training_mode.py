"""Train in training mode: a model whose gradients are wanted leaves the evaluation mode that something put it into."""

from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """Before top-level calls with gradients of modules that were made in training mode."""
    import torch

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        wanted = torch.is_grad_enabled() and not model.training and not torch.compiler.is_compiling()
        if wanted and all(parameter.requires_grad for parameter in model.parameters()):
            model.train()
        return call(model, *args, **kwargs)

    around_calls(observer, "training mode", around)
