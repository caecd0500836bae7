"""Train in training mode: a model whose gradients are wanted leaves the evaluation mode that something put it into."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Before top-level calls with gradients of modules that were made in training mode."""
    import torch

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            wanted = torch.is_grad_enabled() and not self.training and not torch.compiler.is_compiling()
            if wanted and all(parameter.requires_grad for parameter in self.parameters()):
                self.train()
            return original(self, *args, **kwargs)

        return __call__

    observer.replacements.replace("training mode", torch.nn.Module, "__call__", make)
