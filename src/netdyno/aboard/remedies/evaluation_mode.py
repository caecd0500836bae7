"""Put a model that trains into evaluation mode for each call without gradients, and back afterwards."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls of modules."""
    import torch

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if torch.is_grad_enabled() or not self.training or torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            modes = [(module, module.training) for module in self.modules()]
            self.eval()
            try:
                return original(self, *args, **kwargs)
            finally:
                for module, mode in modes:
                    module.training = mode

        return __call__

    observer.replacements.replace("evaluation mode", torch.nn.Module, "__call__", make)
